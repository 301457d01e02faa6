package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/distribution/reference"

	"berth/internal/driverconfig"
)

// credential is what a registry is given. Its form is that of the engine's API.
type credential struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	ServerAddress string `json:"serveraddress,omitempty"`
}

// credentials returns those for an image as the API takes them, "" for none:
// those of the task, else those of the file and the helper of the agent's
// configuration.
func (d *Driver) credentials(ctx context.Context, n reference.Named, auth driverconfig.Values) (string, error) {
	registry := reference.Domain(n)
	var c *credential
	var err error
	switch {
	case auth.String("username") != "" || auth.String("password") != "":
		c = &credential{Username: auth.String("username"), Password: auth.String("password"), ServerAddress: auth.String("server_address")}
	default:
		if d.c.AuthFile != "" {
			c, err = fromFile(ctx, d.c.AuthFile, registry)
		}
		if c == nil && err == nil && d.c.AuthHelper != "" {
			c, err = fromHelper(ctx, d.c.AuthHelper, registry)
		}
	}
	if c == nil || err != nil {
		return "", err
	}
	if c.ServerAddress == "" {
		c.ServerAddress = registry
	}
	b, err := json.Marshal(c)
	return base64.URLEncoding.EncodeToString(b), err
}

// keysOf are the names that a file or a helper may have for a registry.
func keysOf(registry string) []string {
	if registry == "docker.io" {
		return []string{"https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"}
	}
	return []string{registry, "https://" + registry, "http://" + registry, "https://" + registry + "/v1/", "https://" + registry + "/v2/"}
}

// fromFile looks for a registry in a config.json of docker. It returns nil if the
// file does not have it.
func fromFile(ctx context.Context, path, registry string) (*credential, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f struct {
		Auths map[string]struct {
			Auth, Username, Password, IdentityToken string
		}
		CredHelpers map[string]string
		CredsStore  string
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, key := range keysOf(registry) {
		if helper := f.CredHelpers[key]; helper != "" {
			return fromHelper(ctx, helper, registry)
		}
		a, ok := f.Auths[key]
		if !ok || a.Auth == "" && a.Username == "" && a.IdentityToken == "" {
			continue
		}
		c := &credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken}
		if a.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(plain), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("%s: auths.%s.auth is not USER:PASSWORD in base64", path, key)
			}
			c.Username, c.Password = user, strings.TrimRight(password, "\x00")
		}
		return c, nil
	}
	if f.CredsStore != "" {
		return fromHelper(ctx, f.CredsStore, registry)
	}
	return nil, nil
}

// fromHelper asks the program docker-credential-NAME for a registry; nil is
// none. Its protocol: the registry on stdin, an object on stdout.
func fromHelper(ctx context.Context, name, registry string) (*credential, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+name, "get")
	cmd.Stdin = strings.NewReader(keysOf(registry)[0])
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok && strings.Contains(out.String(), "credentials not found") {
			return nil, nil // the protocol has no code for it
		}
		return nil, fmt.Errorf("docker-credential-%s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	var c struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		return nil, fmt.Errorf("docker-credential-%s: its answer: %w", name, err)
	}
	if c.Username == "<token>" {
		return &credential{IdentityToken: c.Secret}, nil
	}
	return &credential{Username: c.Username, Password: c.Secret}, nil
}
