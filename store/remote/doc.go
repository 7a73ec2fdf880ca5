// Package remote keeps stores on object storage: S3 and what speaks its protocol, or a folder.
//
// # Model
//
// An address names a prefix of a bucket. Below it lie
//
//	gstore.json                what it is, and its format
//	objects/ab/abcdef…         a file's bytes, by their SHA-256; written once
//	snapshots/0000000007.json  what a store held when it was pushed: its files and their objects
//
// [Push] uploads the objects that the newest snapshot does not name, and then the next snapshot, by one write that fails where there is
// one of that number ([Bucket].Create). So a snapshot is there whole or not at all, two that push at once cannot overwrite each other,
// and what an interrupted push left is named by nothing; [Prune] removes it a day later. A snapshot follows another only if it holds all
// versions and runs of that one, unless the user forces it: then the other is still there to pull.
//
// [Pull] makes a store of a snapshot, beside its place, and moves it there in one step when every file's checksum is right. Files that a
// store there has already are linked, not read again. A store that is pulled with [PullOptions].Lazy leaves its data files where they are: a
// program that imports this package reads of them what it needs, and keeps what it has read.
package remote
