package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train/config"
)

const optionsHead = `# What goes with what

<!-- Made of the tables of options by: go test ./tools/cli -run OptionsPage -rewrite -->

What each option of ` + "`gstore train`" + ` may be, what it needs, and what it does not go with, by task. A combination that
is not possible is refused with the same words. ` + "`train --help-all`" + ` says what each option does.
`

// TestOptionsPage: docs/reference/options.md is what the tables of options say.
func TestOptionsPage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(optionsHead)
	options.WritePage(&page, config.Options().Bind(new(config.Config)), link.Options().Bind(new(link.Config)),
		temporal.Options().Bind(new(temporal.Config)), targets.Options().Bind(new(targets.Config)))
	path := filepath.Join(reference, "options.md")
	if *rewrite {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("docs/reference/options.md is not what the tables say (%v): go test ./tools/cli -run OptionsPage -rewrite", err)
	}
}
