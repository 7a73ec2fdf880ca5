package blockio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const oDirect = unix.O_DIRECT

// directWorks reports whether a descriptor opened with O_DIRECT takes requests
// of our alignment. Some file systems accept the flag and refuse the reads, or
// want more than 4096 (the kernel tells since 6.1).
func directWorks(fd int) bool {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) == nil && st.Mask&unix.STATX_DIOALIGN != 0 {
		return st.Dio_offset_align != 0 && Alignment%st.Dio_offset_align == 0 && Alignment%st.Dio_mem_align == 0
	}
	_, err := retry(func() (int, error) { return unix.Pread(fd, alignedBytes(Alignment), 0) })
	return err == nil
}

// DeviceID names the file system that holds path, the same after a restart for
// those with an identity of their own: what a calibration is kept under.
func DeviceID(path string) (string, error) {
	var st unix.Statfs_t
	if _, err := retry(func() (int, error) { return 0, unix.Statfs(path, &st) }); err != nil {
		return "", &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return fmt.Sprintf("%08x%08x-%x", uint32(st.Fsid.Val[0]), uint32(st.Fsid.Val[1]), st.Type), nil
}

func datasync(fd int) error { return unix.Fdatasync(fd) }

// adviseHuge asks for huge pages; a kernel without them works as well.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// populate makes the pages of b resident: by one system call since Linux 5.14,
// before that by writing to each.
func populate(b []byte) error {
	_, err := retry(func() (int, error) { return 0, unix.Madvise(b, unix.MADV_POPULATE_WRITE) })
	if err == unix.EINVAL {
		for i := 0; i < len(b); i += Alignment {
			b[i] = 0
		}
		return nil
	}
	return err
}
