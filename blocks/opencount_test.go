package blocks

import "github.com/cockroachdb/pebble/v2/vfs"

// OpenCount is a file system that counts the files that were opened for writing and are not closed: Left.
type OpenCount struct {
	vfs.FS
	Left int
}

type countedFile struct {
	vfs.File
	fs *OpenCount
}

func (f countedFile) Close() error {
	f.fs.Left--
	return f.File.Close()
}

func (f *OpenCount) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return f.count(file, err)
}

func (f *OpenCount) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, category, opts...)
	return f.count(file, err)
}

func (f *OpenCount) count(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	f.Left++
	return countedFile{file, f}, nil
}
