#!/bin/bash -eu
# Builds every fuzz target of the repository for libFuzzer. It runs inside ClusterFuzzLite's image, which sets SRC and
# OUT and brings compile_native_go_fuzzer_v2. That command looks for a target's name in the package's folder and below
# it, so names differ there: tools/layering tests it.
cd "$SRC/gstore"
go mod download
while IFS=: read -r file line; do
  target=$(sed -E 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/' <<<"$line")
  dir=$(dirname "$file")
  compile_native_go_fuzzer_v2 "$(go list "$dir")" "$target" "$(sed 's|^\./||; s|/|_|g' <<<"$dir")_$target"
done < <(grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . | sort)
