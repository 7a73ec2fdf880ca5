package inspect_test

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestDevicesListsTheHost(t *testing.T) {
	code, stdout, stderr := clitest.Run(t, "devices")
	if code != cli.ExitOK || !strings.HasPrefix(stdout, "host  ") || !strings.Contains(stdout, "threads") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ = clitest.Run(t, "--json", "devices"); code != cli.ExitOK || !strings.Contains(stdout, `"name":"host"`) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
