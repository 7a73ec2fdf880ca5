package training

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/tools/cli/command"
)

// warnBaselines says where a run's result is no better than what it stands beside; names are the classes'.
func warnBaselines(e *command.Env, s *train.Summary, names []string) {
	if b := s.Baselines; b == nil || b.Split == "" {
		return
	}
	if text := unbeaten(s, names); text != "" {
		e.Warn(text)
	}
}

// besideText says what the baselines come to.
func besideText(b *baseline.Result, names []string) string {
	if b.MeanMAE != nil {
		text := fmt.Sprintf("the training nodes' mean (%s) MAE %s; the same model without edges ", number(b.Mean), number(b.MeanMAE))
		if b.FeaturesMAE == nil {
			return text + "was not trained: " + b.Skipped
		}
		return fmt.Sprintf("%sMAE %s (%s)", text, number(b.FeaturesMAE), options.Count(b.Trained, "training node"))
	}
	if b.ConstantF1 != nil {
		text := fmt.Sprintf("%s for every node micro F1 %s; the same model without edges ", classNames(names, b.Constant), percentOf(b.ConstantF1))
		if b.FeaturesF1 == nil {
			return text + "was not trained: " + b.Skipped
		}
		return fmt.Sprintf("%s%s (%s)", text, percentOf(b.FeaturesF1), options.Count(b.Trained, "training node"))
	}
	text := fmt.Sprintf("the most frequent class (%s) %s; the same model without edges ", className(names, b.Majority), command.FormatPercent(b.MajorityAccuracy))
	if b.FeaturesAccuracy == nil {
		return text + "was not trained: " + b.Skipped
	}
	return fmt.Sprintf("%s%s ± %.1f (%s)", text, command.FormatPercent(*b.FeaturesAccuracy), 100*sampling(*b.FeaturesAccuracy, b.Tested),
		options.Count(b.Trained, "training node"))
}

// sampling is the standard error of an accuracy on a sample.
func sampling(accuracy float64, nodes int) float64 {
	return math.Sqrt(accuracy * (1 - accuracy) / float64(max(1, nodes)))
}

// unbeaten says which baseline a result does not beat; "" where it beats all.
func unbeaten(s *train.Summary, names []string) string {
	b, own := s.Baselines, s.TestAccuracy
	if x := s.Errors; x != nil {
		return unbeatenNumbers(b, x)
	}
	if s.F1 != nil {
		return unbeatenLabels(s, names)
	}
	if b.Split == "valid" {
		own = s.ValidAccuracy
	}
	switch {
	case s.ValidBalanced != nil: // class weights give accuracy away
	case s.RareClass && s.Areas != nil && s.TestAUC != nil && *s.TestAUC > ranksNodes: // accuracy says little
	case own <= b.MajorityAccuracy:
		return fmt.Sprintf("the model's %s are no better than what answering %s for every node comes to (%s)", command.FormatPercent(own), className(names, b.Majority), command.FormatPercent(b.MajorityAccuracy))
	case b.FeaturesAccuracy != nil && own <= *b.FeaturesAccuracy:
		return fmt.Sprintf("the model's %s are no better than what the same model learns without edges (%s): the graph adds nothing here; are its edges the right ones, in the right direction?",
			command.FormatPercent(own), command.FormatPercent(*b.FeaturesAccuracy))
	}
	return ""
}

// ranksNodes is the area under the ROC curve above which a model has learned something of a rare class.
const ranksNodes = 0.6

// unbeatenNumbers is unbeaten for labels that are numbers.
func unbeatenNumbers(b *baseline.Result, x *train.Errors) string {
	own := x.TestMAE
	if b.Split == "valid" {
		own = x.ValidMAE
	}
	switch {
	case own == nil || b.MeanMAE == nil:
		return ""
	case *own >= *b.MeanMAE:
		return fmt.Sprintf("the model's mean absolute error of %s is no better than what answering the training nodes' mean, %s, for every node comes to (%s)", number(own), number(b.Mean), number(b.MeanMAE))
	case b.FeaturesMAE != nil && *own >= *b.FeaturesMAE:
		return fmt.Sprintf("the model's mean absolute error of %s is no better than what the same model learns without edges (%s): the graph adds nothing here; are its edges the right ones, in the right direction?",
			number(own), number(b.FeaturesMAE))
	}
	return ""
}

// areasText says how well a model of two classes, or of several labels a node, ranks nodes; "" where that was not measured.
func areasText(a *train.Areas, several bool, names []string) string {
	if a == nil {
		return ""
	}
	number := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.4f", *x)
	}
	by := "each label, on average"
	if !several {
		by = className(names, 1)
	}
	return fmt.Sprintf("ranked by %s: test ROC AUC %s, average precision %s; valid %s, %s", by,
		number(a.TestAUC), number(a.TestPrecision), number(a.ValidAUC), number(a.ValidPrecision))
}

// balancedText says that an accuracy is the mean over classes, where a run goes by that.
func balancedText(s *train.Summary) string {
	if s.ValidBalanced == nil {
		return ""
	}
	return ", the mean over classes,"
}
