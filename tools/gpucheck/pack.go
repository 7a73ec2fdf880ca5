package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// pack builds what a GPU machine needs, in the repository's root, and writes it to an archive.
func pack(ctx context.Context, archive string) (err error) {
	dir, err := os.MkdirTemp("", "gpucheck")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	build := exec.CommandContext(ctx, filepath.Join("gpu", "cuda", "build.sh"), "gpucheck", dir)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build in the repository's root: %w", err)
	}
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	err = errors.Join(archiveFolder(f, dir, "gpucheck"), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(archive))
	}
	info, err := os.Stat(archive)
	if err == nil {
		fmt.Fprintf(os.Stderr, "%s, %.1f MB: unpack it on a GPU machine and run gpucheck/gpucheck run\n", archive, float64(info.Size())/1e6)
	}
	return err
}

// archiveFolder writes the files of dir, which has no folders, as NAME/….
func archiveFolder(w io.Writer, dir, name string) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name + "/" + f.Name(), Mode: int64(info.Mode().Perm()), Size: int64(len(b)), ModTime: info.ModTime()}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
