package training

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/tools/cli/command"
)

// number writes a number that may be missing, in five digits.
func number(x *float64) string {
	if x == nil {
		return "-"
	}
	return command.FormatNumber(*x)
}

// errorsText says how far a model of numbers is from the labels of test and valid.
func errorsText(x *train.Errors) string {
	r2 := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.4f", *x)
	}
	return fmt.Sprintf("test MAE %s, RMSE %s, R² %s; valid MAE %s, RMSE %s, R² %s", number(x.TestMAE), number(x.TestRMSE), r2(x.TestR2),
		number(x.ValidMAE), number(x.ValidRMSE), r2(x.ValidR2))
}

// printNumbers is the table of gstore eval for a model of numbers.
func printNumbers(e *command.Env, splits []string, ms []eval.Metrics) {
	fmt.Fprintf(e.Stdout, "%-6s  %10s  %8s  %12s  %12s  %8s\n", "split", "nodes", "loss", "MAE", "RMSE", "R²")
	for i, s := range splits {
		n := ms[i].Numbers
		if n == nil {
			fmt.Fprintf(e.Stdout, "%-6s  %10d  %8s  %12s  %12s  %8s\n", s, 0, "-", "-", "-", "-")
			continue
		}
		r2 := "-"
		if !math.IsNaN(n.R2) {
			r2 = fmt.Sprintf("%.4f", n.R2)
		}
		fmt.Fprintf(e.Stdout, "%-6s  %10d  %8.4f  %12s  %12s  %8s\n", s, ms[i].Nodes, ms[i].Loss, number(&n.MAE), number(&n.RMSE), r2)
	}
}

// numbersHeader and numbersLine are the table of epochs of a model of numbers.
func numbersHeader(e *command.Env) {
	e.TellBeside("%5s  %8s  %10s  %10s   %10s  %8s  %8s  %10s", "epoch", "loss", "train MAE", "valid MAE", "test MAE", "valid R²", "seconds", "read")
}

func numbersLine(e *command.Env, r train.Epoch) {
	cell := func(x *float64) string {
		if x == nil {
			return ""
		}
		return number(x)
	}
	r2, mark := "", " "
	if r.ValidR2 != nil {
		r2 = fmt.Sprintf("%.4f", *r.ValidR2)
	}
	if r.Best {
		mark = "*"
	}
	fmt.Fprintf(e.Told(), "%5d  %8.4f  %10s  %s  %10s  %8s  %8.3f  %10s\n", r.Epoch, r.Loss, cell(r.TrainMAE), e.Best(fmt.Sprintf("%10s%s", cell(r.ValidMAE), mark), r.Best), cell(r.TestMAE), r2, r.Seconds, command.FormatSize(r.BytesRead))
}
