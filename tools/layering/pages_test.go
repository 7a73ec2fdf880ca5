package layering

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	root       = "../.."
	columnsMax = 120 // of a Markdown line, in runes; tables and blocks of code may be wider
)

var (
	// link is [text](target); the targets of pages have neither blanks nor brackets.
	link = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	// citation is a page of docs, and a section if the text goes on with its name: docs/design.md, "store".
	citation = regexp.MustCompile(`docs/((?:[a-z]+/)*[a-z]+\.md)(?:[,:]? "([^"]+)")?`)
	// elsewhere are names of pages that the repository does not have.
	elsewhere = regexp.MustCompile(`\b(LIMITS|FINDINGS|DEFECTS|DESIGN|CUDA)\b\.?(md\b|, ")|\bissues? [0-9]`)
	// author is the first of a work's several.
	author = regexp.MustCompile(`(\pL+) et al\.`)
	// folder is a package in a command, as in go test ./store/buffer.
	folder = regexp.MustCompile(`[ "]\./([a-z]+(?:/[a-z]+)*)`)
	// command starts what a reader can run: in back quotes, or a line of a block of code.
	command = regexp.MustCompile("(?m)(^|`)(gstore|gstore-lab|go run|go test|go build|fio|tools/fuzz|tools/[a-z]+/[a-z_]+\\.py) ")
)

// page is a Markdown file, cut for the checks.
type page struct {
	path  string
	prose []string // its lines; those of blocks of code are empty
	text  string
}

// pages reads every Markdown file of the repository, by path from the root.
func pages(t *testing.T) map[string]page {
	found := map[string]page{}
	walk(t, ".md", func(path, text string) {
		p := page{path: path, text: text}
		code := false
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if fence := strings.HasPrefix(line, "```"); fence || code {
				code = code != fence
				line = ""
			}
			p.prose = append(p.prose, line)
		}
		found[path] = p
	})
	if len(found) < 8 {
		t.Fatalf("only %d Markdown files were found", len(found))
	}
	return found
}

// walk calls visit with the repository's files of a suffix.
func walk(t *testing.T, suffix string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != "." && d.Name() != ".." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, suffix) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		visit(filepath.ToSlash(name), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// headings are the names of a page's sections.
func (p page) headings() map[string]bool {
	names := map[string]bool{}
	for _, line := range p.prose {
		if text := strings.TrimLeft(line, "#"); len(text) < len(line) {
			names[strings.TrimSpace(text)] = true
		}
	}
	return names
}

// anchors are the fragments that GitHub makes of the headings: lower case, blanks to
// hyphens, other marks dropped.
func (p page) anchors() map[string]bool {
	fragments := map[string]bool{}
	for h := range p.headings() {
		fragments[strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= utf8.RuneSelf:
				return r
			}
			return -1
		}, strings.ToLower(h))] = true
	}
	return fragments
}

func TestPageLines(t *testing.T) {
	for path, p := range pages(t) {
		for i, line := range p.prose {
			if n := utf8.RuneCountInString(line); n > columnsMax && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns, expected at most %d outside tables and blocks of code", path, i+1, n, columnsMax)
			}
		}
	}
}

// TestPageLinks: relative links lead to files and sections, commands to packages.
func TestPageLinks(t *testing.T) {
	all, links := pages(t), 0
	for path, p := range all {
		for i, line := range p.prose {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, fragment, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				links++
				file := path
				if target != "" {
					file = filepath.ToSlash(filepath.Join(filepath.Dir(path), target))
				}
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s:%d links to %s: %v", path, i+1, m[1], err)
				} else if fragment != "" && !all[file].anchors()[fragment] {
					t.Errorf("%s:%d links to %s: %s has no such section", path, i+1, m[1], file)
				}
			}
		}
	}
	for path, p := range all {
		for _, m := range folder.FindAllStringSubmatch(p.text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names ./%s in a command: %v", path, m[1], err)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

// TestCitations: the pages, sections and works that code and pages name are in the repository.
func TestCitations(t *testing.T) {
	all, cited := pages(t), 0
	comment := regexp.MustCompile(`\n\s*//\s*`)
	check := func(path, text string) {
		if strings.HasPrefix(path, "tools/layering/") {
			return
		}
		for _, m := range elsewhere.FindAllString(text, -1) {
			t.Errorf("%s cites %q, which is not in the repository", path, m)
		}
		for _, m := range author.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(all["docs/bibliography.md"].text, m[1]) {
				t.Errorf("%s cites %s, whose work docs/bibliography.md does not list", path, m[0])
			}
		}
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			cited++
			if p, ok := all["docs/"+m[1]]; !ok {
				t.Errorf("%s cites docs/%s, which does not exist", path, m[1])
			} else if m[2] != "" && !p.headings()[m[2]] {
				t.Errorf("%s cites %q, expected a section of docs/%s", path, m[2], m[1])
			}
		}
	}
	walk(t, ".go", func(path, text string) { check(path, comment.ReplaceAllString(text, " ")) })
	for _, suffix := range []string{".md", ".py"} {
		walk(t, suffix, func(path, text string) { check(path, strings.ReplaceAll(text, "\n", " ")) })
	}
	if cited < 20 {
		t.Errorf("only %d citations were found", cited)
	}
}

// TestBenchmarksHaveCommands: who reads a table of figures can run it.
func TestBenchmarksHaveCommands(t *testing.T) {
	tables := 0
	for _, page := range []string{"docs/benchmarks.md", "docs/accuracy.md", "docs/lab/trials.md"} {
		for _, section := range strings.Split(pages(t)[page].text, "\n## ")[1:] {
			name, body, _ := strings.Cut(section, "\n")
			if !strings.Contains(body, "\n|---") || name == "Data sets" {
				continue
			}
			tables++
			if !command.MatchString(body) {
				t.Errorf("%s, %q, has a table and no command", page, name)
			}
		}
	}
	if tables < 5 {
		t.Errorf("only %d sections with tables were found", tables)
	}
}
