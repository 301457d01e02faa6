package server_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/claim"
	"berth/internal/eventually"
	"berth/internal/server"
)

// A server whose ID was deleted is not started as a stranger to its own log,
// which nobody could elect. The error gives the ID; with it, all is as before.
func TestALostServerIDIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	x := startGossiping(t, "a", dir, 1, io.Discard)
	for deadline := time.Now().Add(eventually.Limit); !x.Leads(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server never led")
		}
	}
	x.stop()
	path := filepath.Join(dir, "id")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = server.Hold(dir, claim.Wait{})
	if err == nil || !strings.Contains(err.Error(), "echo "+strings.TrimSpace(string(text))+" > "+path) {
		t.Fatalf("without its ID: %v", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := server.Hold(dir, claim.Wait{})
	if err != nil {
		t.Fatal(err)
	}
	if folder.ID != strings.TrimSpace(string(text)) {
		t.Errorf("its ID is %s", folder.ID)
	}
	if err := folder.Close(); err != nil {
		t.Error(err)
	}
}
