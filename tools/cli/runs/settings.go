package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/tools/cli/command"
)

// Settings are a run's configuration, by the names that it is recorded with.
type Settings map[string]any

// SettingsOf reads a configuration; none of what is no object.
func SettingsOf(config json.RawMessage) Settings {
	var s Settings
	if json.Unmarshal(config, &s) != nil {
		return nil
	}
	return s
}

// sizes is how the names of settings end that are sizes, whose flags do not say so.
const sizes = "_bytes"

// flagOf is the flag of a setting.
func flagOf(name string) string { return strings.ReplaceAll(strings.TrimSuffix(name, sizes), "_", "-") }

// differing are the names by which runs differ, in order, but for some. What a configuration leaves out is at its zero.
func differing(runs []Settings, but ...string) (names []string) {
	all := map[string]bool{}
	for _, s := range runs {
		for name := range s {
			all[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(but, name) {
			continue
		}
		if slices.ContainsFunc(runs[1:], func(s Settings) bool { return s.text(name) != runs[0].text(name) }) {
			names = append(names, name)
		}
	}
	return names
}

// text is a setting as a flag would give it, "" of one at its zero.
func (s Settings) text(name string) string {
	switch v := s[name].(type) {
	case bool:
		if v {
			return "true"
		}
	case float64:
		switch {
		case v == 0:
		case strings.HasSuffix(name, sizes):
			return command.FormatSize(int64(v))
		default:
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	case string:
		if v != "auto" && v != "none" {
			return v
		}
	case []any:
		texts := make([]string, len(v))
		for i, x := range v {
			texts[i] = fmt.Sprint(x)
		}
		return strings.Join(texts, ",")
	case map[string]any:
		b, err := json.Marshal(v)
		if err != nil { // it was read from JSON
			panic(err)
		}
		return string(b)
	}
	return ""
}

// shown is a setting's text also where it is at its zero, "" if the configuration has none.
func (s Settings) shown(name string) string {
	text := s.text(name)
	switch v := s[name].(type) {
	case bool, float64, string:
		if text == "" && !strings.HasSuffix(name, sizes) {
			text = fmt.Sprint(v)
		}
	}
	return text
}

// Differences says, of each of several runs, what of its settings is not that of all: names and values as flags would give them.
func Differences(runs []Settings, but ...string) []string {
	texts := make([]string, len(runs))
	if len(runs) < 2 {
		return texts
	}
	names := differing(runs, but...)
	for i, s := range runs {
		var parts []string
		for _, name := range names {
			if text := s.shown(name); text != "" {
				parts = append(parts, flagOf(name)+" "+text)
			}
		}
		texts[i] = strings.Join(parts, ", ")
	}
	return texts
}
