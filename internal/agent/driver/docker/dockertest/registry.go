package dockertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"golang.org/x/crypto/bcrypt"

	"berth/internal/eventually"
	"berth/internal/freeport"
)

// Registry is a registry of images that runs on loopback: Debian's
// docker-registry, behind a proxy that tests can look into.
type Registry struct {
	Host string // with its port, as names of images begin

	// Before is called before a request is passed on; nil is not. It may be set
	// before the first request.
	Before func(*http.Request)

	user, password string
}

// StartRegistry starts a registry that ends with the test. It wants a password of
// all who ask, unless user is "".
func StartRegistry(t testing.TB, user, password string) *Registry {
	t.Helper()
	dir := t.TempDir()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), address)
	if user != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		users := filepath.Join(dir, "users")
		if err := os.WriteFile(users, []byte(user+":"+string(hash)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", users)
	}
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker-registry", "serve", config)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	said := func() string { b, _ := os.ReadFile(log.Name()); return string(b[max(0, len(b)-2000):]) }
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = log.Close()
	})
	eventually.True(t, "the registry listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("docker-registry has ended:\n%s", said())
		default:
		}
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	r := &Registry{user: user, password: password}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address}) // keeps the name of the host, which the registry's answers name
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.Before != nil {
			r.Before(q)
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Auth returns credentials as the engine's API takes them.
func Auth(user, password, registry string) string {
	b, _ := json.Marshal(map[string]string{"username": user, "password": password, "serveraddress": registry}) // plain values: no error
	return base64.URLEncoding.EncodeToString(b)
}

// Push makes an image of a tar archive of its files, pushes it under a name of
// the registry, such as "app:1", and removes it from the engine. It returns the
// digest.
func (r *Registry) Push(ctx context.Context, e *Engine, name string, files []byte) (digest string, err error) {
	full := r.Host + "/" + name
	if err := e.Import(ctx, full, files); err != nil {
		return "", err
	}
	out, err := e.Client.ImagePush(ctx, full, client.ImagePushOptions{RegistryAuth: Auth(r.user, r.password, r.Host)})
	if err != nil {
		return "", err
	}
	defer out.Close()
	for dec := json.NewDecoder(out); ; {
		var m struct {
			Error string
			Aux   struct{ Digest string }
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
		if m.Error != "" {
			return "", errors.New(m.Error)
		}
		if m.Aux.Digest != "" {
			digest = m.Aux.Digest
		}
	}
	_, err = e.Client.ImageRemove(ctx, full, client.ImageRemoveOptions{Force: true})
	return digest, err
}
