package race

// SkipArithmetic skips a test whose work is arithmetic that other tests do beside goroutines: with the race detector it takes ten times
// as long, and finds nothing that they do not.
func SkipArithmetic(t interface{ Skip(args ...any) }) {
	if Enabled {
		t.Skip("arithmetic, which the tests without the race detector look at")
	}
}
