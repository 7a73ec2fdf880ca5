package train

const (
	// EpochsMax ends a run that has no number of epochs and whose validation accuracy goes on rising.
	EpochsMax = 1000
	// EpochsBlind is how many epochs a run has that has no number and no nodes to validate with.
	EpochsBlind = 100
)

// limit is the number of epochs after which the run ends whatever its validations say.
func (s *session) limit() int {
	switch {
	case s.cfg.Epochs > 0:
		return s.cfg.Epochs
	case s.cfg.ReusePasses != nil: // an earlier run is repeated
		return len(s.cfg.ReusePasses)
	case s.blind:
		return EpochsBlind
	}
	return EpochsMax
}

// more reports whether another epoch follows after so many. A run without a number of epochs ends where the best
// validation lies cfg.Patience epochs back, or the next validation after that.
func (s *session) more(epochs int) bool {
	if s.cfg.Epochs == 0 && !s.blind && s.sum.BestEpoch > 0 && epochs-s.sum.BestEpoch >= s.cfg.Patience && epochs%s.cfg.EvalEvery == 0 {
		return false
	}
	return epochs < s.limit()
}
