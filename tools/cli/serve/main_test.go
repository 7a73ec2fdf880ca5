package serve_test

import (
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }
