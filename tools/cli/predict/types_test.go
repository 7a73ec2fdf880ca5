package predict_test

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTypeLeftOut: predict finds a node by its id without its type where one type alone has it, shows it with the type, and asks for the
// type where several have it.
func TestTypeLeftOut(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"g/nodes/user.csv": []byte("user_id,age,label,split\nann,30,a,train\nbob,40,b,train\n7,50,a,valid\n9,20,b,test\n"),
		"g/nodes/item.csv": []byte("item_id,price\ni1,1\n7,3\n"), "g/edges/user-bought-item.csv": []byte("user_id,item_id\nann,i1\nbob,7\n7,i1\n9,7\n"),
	})
	clitest.MustRun(t, "ingest", "g", "s")
	clitest.MustRun(t, "train", "s", "--epochs", "1", "--hidden", "4", "--quiet")
	_, want, _ := clitest.Run(t, "predict", "s", "user:ann", "user:9")
	code, got, errs := clitest.Run(t, "predict", "s", "ann", "9")
	if code != 0 || got != want || !strings.Contains(got, "user:ann") {
		t.Errorf("ids without their type: exit %d %s\n%s\nexpected\n%s", code, errs, got, want)
	}
	code, _, errs = clitest.Run(t, "predict", "s", "7")
	if code == 0 || !strings.Contains(errs, `"7" is a node of several types`) || !strings.Contains(errs, "user:7") || !strings.Contains(errs, "item:7") {
		t.Errorf("an id of two types: exit %d, %s", code, errs)
	}
	if code, _, errs = clitest.Run(t, "predict", "s", "carl"); code == 0 || !strings.Contains(errs, "carl") {
		t.Errorf("an id of no type: exit %d, %s", code, errs)
	}
}
