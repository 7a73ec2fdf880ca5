package zoo

import (
	"fmt"
	"math"
)

// explain asks why the model says its answer to the first node: of the same class, of what it says, in shares that add up.
func (r *run) explain(run func(args ...string) (*Outcome, error), answer map[string]any) error {
	o, err := run("predict", r.at("store"), r.g.Nodes[0].ID, "--explain", "--json")
	if err != nil {
		return err
	}
	list, err := events(o.Stdout)
	if err == nil {
		err = addUp(list, answer, r.c.Is("values", "large"))
	}
	return r.checked("explain", o.Args, err)
}

// addUp compares the rows of an explanation with an answer; values far from 0 saturate what is followed, whose shares then add up to little.
func addUp(list []map[string]any, answer map[string]any, large bool) error {
	sums, changes := map[string]float64{}, map[string]float64{}
	for _, row := range list {
		if row["event"] != "prediction" {
			continue
		}
		part, _ := row["part"].(string)
		says, ok := row["says"].(float64)
		share, finite := row["share"].(float64)
		from, begins := row["from"].(float64)
		if !ok || !finite || !begins {
			return fmt.Errorf("a row of the explanation is %v: expected numbers", row)
		}
		want, of := answer["value"], "value"
		if want == nil {
			of = fmt.Sprintf("p_%v", row["class"])
			want = answer[of]
		}
		if p, ok := want.(float64); ok && math.Abs(p-says) > 2e-3*(1+math.Abs(p)) {
			return fmt.Errorf("explained is %v, %s of the answer is %v", says, of, p)
		}
		sums[part] += share
		changes[part] = says - from
	}
	for part, sum := range sums {
		if change := changes[part]; !large && math.Abs(sum-change) > .05*math.Abs(change)+.01*(1+math.Abs(change)) {
			return fmt.Errorf("shares of part %s add up to %v, the change is %v", part, sum, change)
		}
	}
	return nil
}
