package meta

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
)

// The seal says what the metadata directory holds while nobody writes: every file, its
// size, and of small ones the checksum. Pebble finds damage in tables, but takes a damaged end
// of its log or its manifest for where a crash ended it, and a lost marker for a directory
// in which nothing was ever written: a store would silently be what it was some commits
// ago, or nothing. A writer breaks the seal, durably, by another name before it changes anything, and
// makes it anew when it closes. So after a crash there is none, and Pebble's own
// checks are all there is, but for the broken seal's version: one that was committed does not vanish.
//
// Part of the format; lines of text:
//
//	gstore seal 2           or 1, of earlier builds, without a version
//	version N               the newest that is committed; 0 = none
//	SIZE CRC32C NAME        CRC32C in hexadecimal; "-" of files of more than sealBytesMax
//	…                       by ascending name
//	end CRC32C              of all bytes before
const (
	sealName   = "SEAL"
	sealBroken = "SEAL.broken"
	sealFirst  = "gstore seal 2\n"
	sealOlder  = "gstore seal 1\n"
	// sealBytesMax bounds the files whose contents the seal covers; larger ones are tables, whose blocks
	// have checksums.
	sealBytesMax = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed lists the files of the metadata directory as the seal does.
func (e Env) sealed() (string, error) {
	names, err := e.FS.List(e.Path(MetaName))
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	out := ""
	for _, name := range names {
		if strings.HasPrefix(name, sealName) {
			continue
		}
		line, err := e.sealLine(name)
		if err != nil {
			return "", err
		}
		out += line
	}
	return out, nil
}

func (e Env) sealLine(name string) (_ string, err error) {
	path := e.Path(MetaName, name)
	info, err := e.FS.Stat(path)
	if err != nil || info.IsDir() {
		return "", err
	}
	if info.Size() > sealBytesMax {
		return fmt.Sprintf("%d - %s\n", info.Size(), name), nil
	}
	b, err := e.readMeta(name)
	return fmt.Sprintf("%d %08x %s\n", info.Size(), crc32.Checksum(b, castagnoli), name), err
}

// readMeta reads a small file of the metadata directory.
func (e Env) readMeta(name string) (_ []byte, err error) {
	f, err := e.FS.Open(e.Path(MetaName, name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(f)
}

// readSeal reads a seal: the version that it says is committed, and its lines of files.
func (e Env) readSeal(name string) (version uint64, files string, err error) {
	b, err := e.readMeta(name)
	if err != nil {
		return 0, "", err
	}
	text, end, ok := strings.Cut(string(b), "end ")
	if want := fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli)); !ok || end != want {
		return 0, "", e.damaged(name, "it is no seal, or its checksum %.10q is not %.8q", end, want)
	}
	if files, ok = strings.CutPrefix(text, sealOlder); ok {
		return 0, files, nil
	}
	files, ok = strings.CutPrefix(text, sealFirst)
	line, files, _ := strings.Cut(files, "\n")
	if _, err := fmt.Sscanf(line, "version %d", &version); err != nil || !ok {
		return 0, "", e.damaged(name, "it begins with %.40q, which no build knows", text)
	}
	return version, files, nil
}

// damaged is a file's CorruptError.
func (e Env) damaged(name, format string, args ...any) error {
	return &blocks.CorruptError{Path: e.Path(MetaName, name), Extent: "file", Offset: -1, Reason: fmt.Sprintf(format, args...)}
}

// checkSeal compares the metadata directory with its seal, if there is one, and returns the version that the seal, or the
// last one that was broken, says is committed. What differs is a CorruptError.
func (e Env) checkSeal() (sealed bool, version uint64, err error) {
	version, files, err := e.readSeal(sealName)
	if errors.Is(err, fs.ErrNotExist) {
		if err = e.checkMarker(); err == nil {
			version, _, err = e.readSeal(sealBroken)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, version, err
	}
	if err == nil {
		err = e.compareSealed(files)
	}
	if err != nil && !errors.Is(err, blocks.ErrCorrupt) {
		err = fmt.Errorf("compare the metadata with their seal: %w", err)
	}
	return true, version, err
}

// compareSealed names the first file that differs from what the seal says.
func (e Env) compareSealed(files string) error {
	got, err := e.sealed()
	if err != nil || got == files {
		return err
	}
	damaged, have := e.damaged, map[string]string{}
	for line := range strings.Lines(got) {
		have[line[strings.LastIndexByte(line, ' ')+1:]] = line
	}
	for line := range strings.Lines(files) {
		name := line[strings.LastIndexByte(line, ' ')+1:]
		switch is, there := have[name]; {
		case !there:
			return damaged(strings.TrimSpace(name), "it is missing")
		case is != line:
			return damaged(strings.TrimSpace(name), "its size and checksum are %q, expected %q", is[:len(is)-len(name)-1], line[:len(line)-len(name)-1])
		}
	}
	return nil // there is more than the seal says, such as files whose removal a crash undid: Pebble ignores them
}

// checkMarker fails where data files lie beside metadata that were never begun: Pebble's marker, an empty
// file, or all of the directory, was lost. A writer makes the metadata before any data file.
func (e Env) checkMarker() error {
	names, err := e.FS.List(e.Path(MetaName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list metadata: %w", err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker.manifest.") {
			return nil
		}
	}
	data, err := e.FS.List(e.Path(DataName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list data files: %w", err)
	}
	n := 0
	for _, name := range data {
		if strings.HasSuffix(name, FileSuffix) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return &blocks.CorruptError{Path: e.Path(MetaName), Extent: "marker", Offset: -1,
		Reason: fmt.Sprintf("no file marker.manifest.* says which metadata are current, but there are %d data files: they are left alone", n)}
}

// breakSeal takes the seal away before something is written.
func (e Env) breakSeal() error {
	switch _, err := e.FS.Stat(e.Path(MetaName, sealName)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the metadata's seal: %w", err)
	}
	if err := e.FS.Rename(e.Path(MetaName, sealName), e.Path(MetaName, sealBroken)); err != nil {
		return fmt.Errorf("break the metadata's seal: %w", err)
	}
	return e.SyncDir(e.Path(MetaName))
}

// seal makes the seal after all is written; version is the newest that is committed.
func (e Env) seal(version uint64) error {
	if err := e.SyncDir(e.Path(MetaName)); err != nil { // what the seal names is there after a crash
		return fmt.Errorf("seal the metadata: %w", err)
	}
	text, err := e.sealed()
	if err != nil {
		return fmt.Errorf("seal the metadata: %w", err)
	}
	text = fmt.Sprintf("%sversion %d\n%s", sealFirst, version, text)
	text += fmt.Sprintf("end %08x\n", crc32.Checksum([]byte(text), castagnoli))
	path := e.Path(MetaName, sealName)
	f, err := e.FS.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("seal the metadata: %w", err)
	}
	_, err = f.Write([]byte(text))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = e.FS.Rename(path+".new", path)
	}
	if err == nil {
		err = e.SyncDir(e.Path(MetaName))
	}
	if err == nil { // a crash may bring it back, and it does no harm beside a seal
		if err = e.FS.Remove(e.Path(MetaName, sealBroken)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("seal the metadata: %w", err)
	}
	return nil
}

// Seal is the text of the metadata's seal, which differs after anything was written; "" where there is none.
func (e Env) Seal() (string, error) {
	b, err := e.readMeta(sealName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}
