package simulate

func (w *world) trainNodes() (bool, error) { return false, nil }
func (w *world) trainEdges() (bool, error) { return false, nil }
