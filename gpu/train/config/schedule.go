package config

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/gpu/options"
)

// Names of [Config.LRSchedule].
const (
	ScheduleConstant = "constant"
	ScheduleCosine   = "cosine"  // Loshchilov and Hutter, "SGDR", 2017, equation 5, without restarts
	ScheduleLinear   = "linear"  // to 0
	SchedulePlateau  = "plateau" // halved where validation does not improve
)

// PlateauEpochs is how many epochs without a better validation make a plateau.
const PlateauEpochs = 5

func scheduleOption() option {
	return option{
		Field: func(c *Config) any { return &c.LRSchedule }, Group: options.Optimiser, Level: options.Expert,
		Help: fmt.Sprintf("how the learning rate goes on from epoch to epoch: cosine and linear let it fall to 0 over --epochs, plateau halves it "+
			"where validation has not improved for %d epochs", PlateauEpochs),
		Otherwise: ScheduleConstant, Values: options.Words(ScheduleConstant, ScheduleCosine, ScheduleLinear, SchedulePlateau),
		Rules: []rule{{
			When: condition{Text: "--lr-schedule cosine or linear", Holds: func(c *Config) bool { return c.FallsOver() }},
			Needs: condition{Text: "a number of --epochs", Holds: func(c *Config) bool { return c.Epochs > 0 },
				Found: func(*Config) string { return "--epochs auto" }, Fix: "Give one, or use --lr-schedule plateau"},
			Why: "the rate is 0 at their end",
		}},
	}
}

// FallsOver reports whether the learning rate is a function of the number of epochs.
func (c *Config) FallsOver() bool {
	return c.LRSchedule == ScheduleCosine || c.LRSchedule == ScheduleLinear
}

// Rate is the learning rate of an epoch, counted from 0, after so many plateaus.
func (c *Config) Rate(epoch, plateaus int) float64 {
	gone := float64(epoch) / float64(max(c.Epochs, 1))
	switch c.LRSchedule {
	case ScheduleCosine:
		return c.LR * (1 + math.Cos(math.Pi*gone)) / 2
	case ScheduleLinear:
		return c.LR * (1 - gone)
	case SchedulePlateau:
		return math.Ldexp(c.LR, -plateaus)
	}
	return c.LR
}

// CheckResumed refuses another number of epochs than that of the run which c resumes, where its learning rate follows from it.
func (c *Config) CheckResumed(was *Config) error {
	if c.FallsOver() && c.Epochs != was.Epochs {
		return fmt.Errorf("train: resume: the run's learning rate falls to 0 at the end of epoch %d, not %d: leave --epochs out or begin afresh (with --lr-schedule constant or plateau their number may change)", was.Epochs, c.Epochs)
	}
	return nil
}
