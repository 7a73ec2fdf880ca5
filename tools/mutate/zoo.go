package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gstore/gstore/tools/zoo"
)

// zooCase is a case of the zoo and the mutants that it comes by.
type zooCase struct {
	zoo.Case
	reaches map[int]bool
}

// byZoo runs gstore with the mutants that survived inside, over the zoo's stores: of the first o.Zoo cases of the seed those
// that come by a mutant, until the zoo finds a defect in one.
func (o *options) byZoo(ctx context.Context, root string, pkgs []pkg, out []outcome) (err error) {
	if o.Zoo == 0 {
		return nil
	}
	tmp, err := os.MkdirTemp("", "gstore-mutate-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	binary := filepath.Join(tmp, "gstore")
	if _, err = o.compile(ctx, root, tmp, binary, "./tools/gstore", pkgs, alive(out), "build"); err != nil { // whom it refuses no case comes by
		return err
	}
	run := func(c zoo.Case, env string) (bool, error) {
		gs := zoo.Gstore{Path: binary, Env: []string{env}, Timeout: 2 * time.Minute}
		r, err := zoo.Run(ctx, &gs, c, filepath.Join(tmp, "case"))
		return err == nil && len(r.Found) > 0, err
	}
	all, _ := zoo.Cases(o.Seed, .1, false)
	var cases []zooCase
	for _, c := range all[:min(o.Zoo, len(all))] {
		reached := filepath.Join(tmp, "reached")
		if found, err := run(c, reachEnv+"="+reached); err != nil {
			return err
		} else if found {
			fmt.Fprintf(o.Log, "left out: a case of the zoo with a defect of its own: %s\n", c)
			continue
		}
		reaches, err := readReached(reached)
		if err != nil {
			return err
		}
		cases = append(cases, zooCase{c, reaches})
	}
	for i := range out {
		r := &out[i]
		for _, c := range cases {
			if r.Killed || !c.reaches[r.Number] || r.Reason != "" {
				continue
			}
			if r.Killed, err = run(c.Case, switchEnv+"="+strconv.Itoa(r.Number)); err != nil {
				return err
			}
			if r.Killed {
				fmt.Fprintf(o.Log, "killed by the zoo: %s:%d %s: %s → %s\n", r.File, r.Line, r.Func, r.From, r.To)
			}
		}
	}
	return nil
}
