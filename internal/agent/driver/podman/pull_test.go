package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/eventually"
)

// registry serves a registry of Debian's docker-registry at the address that
// podman may use without a certificate.
func registry(t *testing.T, address string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yml")
	settings := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), address)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker-registry", "serve", file)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make deps installs docker-registry", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually.True(t, "the registry answers", func() bool {
		resp, err := http.Get("http://" + address + "/v2/")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

// An image is pulled from a registry, and what it lacks is an error that says so.
func TestPull(t *testing.T) {
	c := config(t)
	registry(t, service.Registry)
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	name := service.Registry + "/app:1"
	if _, err := service.Client.ImageTag(ctx, client.ImageTagOptions{Source: dockertest.Image, Target: name}); err != nil {
		t.Fatal(err)
	}
	out, err := service.Client.ImagePush(ctx, name, client.ImagePushOptions{RegistryAuth: "e30="}) // {}
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err := errors.Join(err, out.Close()); err != nil || strings.Contains(string(said), `"error"`) {
		t.Fatalf("%v %s", err, said)
	}
	if _, err := service.Client.ImageRemove(ctx, name, client.ImageRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	var told []string
	task := newTask(t, with(does("print", "pulled"), "image", "docker://"+name))
	task.Progress = func(s string) { told = append(told, s) }
	if x, out := ends(t, New(c), task); !x.Success() || out != "pulled" {
		t.Errorf("%+v %q", x, out)
	}
	if len(told) == 0 || told[0] != "Downloading image "+name {
		t.Errorf("%q", told)
	}
	_, err = New(c).Start(ctx, newTask(t, with(does("exit", "0"), "image", service.Registry+"/none:1")))
	if err == nil || !strings.Contains(err.Error(), "manifest unknown") {
		t.Errorf("%v", err)
	}
}

// An image that somebody else removes while a task starts may be there at the
// next try.
func TestTheImageIsRemovedByOthersWhileATaskStarts(t *testing.T) {
	c, name := config(t), "localhost/removed:1"
	files, err := dockertest.Archive()
	if err != nil {
		t.Fatal(err)
	}
	if err := (&dockertest.Engine{Client: service.Client}).Import(t.Context(), name, files); err != nil {
		t.Fatal(err)
	}
	c.Sockets[DefaultSocket] = dockertest.Proxy(t, service.Path, func(r *http.Request) {
		if dockertest.Creates(r) {
			if _, err := service.Client.ImageRemove(t.Context(), name, client.ImageRemoveOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	_, err = New(c).Start(t.Context(), newTask(t, with(does("run"), "image", name)))
	if !driver.IsRecoverable(err) || !strings.Contains(err.Error(), "image") {
		t.Errorf("recoverable %v: %v", driver.IsRecoverable(err), err)
	}
}
