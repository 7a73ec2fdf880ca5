package link

// What options ask of encoders, in one place.

// noEncoder is the name of the encoder that is none.
const noEncoder = "none"

// attends reports whether an encoder has attention heads.
func attends(encoder string) bool { return encoder == "gat" }
