package remote

// Kept returns when all that was read is kept.
func Kept() { keeping.Wait() }
