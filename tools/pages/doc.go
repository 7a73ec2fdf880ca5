// Package pages holds docs to what gstore does: it plays the pages' commands and compares what they print, and compares the
// generated reference with the command tree. Links and line lengths are checked by package layering.
package pages
