package train

import "github.com/gstore/gstore/gpu/train/config"

// plateaus are those of validation at which a run lowered its learning rate ([config.SchedulePlateau]).
type plateaus struct {
	Count int `json:"count"`
	Last  int `json:"last"` // the epoch, from 1, after which the last one was over
}

// look follows a validation after an epoch, counted from 1: where neither the best one nor the last plateau lies nearer, this is one.
func (p *plateaus) look(epoch, best int) {
	if epoch-max(best, p.Last) >= config.PlateauEpochs {
		p.Count, p.Last = p.Count+1, epoch
	}
}

// setRate sets the learning rate of the epoch in hand, counted from 0.
func (s *session) setRate(epoch int) {
	rate := s.cfg.Rate(epoch, s.flat.Count)
	s.t.adam.LR = float32(rate)
	if s.cfg.LRSchedule != config.ScheduleConstant {
		s.epoch.record.LR = rate
	}
}
