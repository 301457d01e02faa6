package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAContactIsReadBack(t *testing.T) {
	dir := t.TempDir()
	if c, err := GetContact(dir); err != nil || !c.At.IsZero() {
		t.Errorf("of nothing: %+v, %v", c, err)
	}
	for i := range 3 {
		want := Contact{At: time.Unix(int64(1000+i), 7), TTL: time.Duration(i) * time.Second, Boot: "run", BootTime: int64(i)}
		must(t, PutContact(dir, want))
		if got, err := GetContact(dir); err != nil || !got.At.Equal(want.At) || got.TTL != want.TTL || got.Boot != want.Boot || got.BootTime != want.BootTime {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("files %v", left)
	}
	must(t, os.WriteFile(filepath.Join(dir, fileContact), []byte("damaged"), 0o600))
	if c, err := GetContact(dir); err == nil || !c.At.IsZero() {
		t.Errorf("of a damaged file: %+v, %v", c, err)
	}
}
