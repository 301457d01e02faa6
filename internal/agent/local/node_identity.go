package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth"
	"berth/internal/saferoot"
)

// The files in the state directory that hold the node's identity, and the token
// that introduces the node to servers that do not know it.
const (
	fileIdentity = "identity.jwt"
	fileIntro    = "intro_token.jwt"
)

// maxToken is the size of the largest token that is read, in bytes.
const maxToken = 16 << 10

// PutNodeIdentity records the identity that servers gave the node. Only the
// agent's user can read it.
func PutNodeIdentity(dir, jwt string) error {
	root, err := saferoot.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Replace(fileIdentity, []byte(jwt), 0o600)
}

// NodeIdentity returns the identity that was recorded last, "" if none was.
func NodeIdentity(dir string) (string, error) { return tokenIn(dir, fileIdentity) }

// IntroToken returns the introduction token that an operator put into the state
// directory, "" if there is none.
func IntroToken(dir string) (string, error) { return tokenIn(dir, fileIntro) }

// tokenIn returns the token in a file of the state directory, "" if there is no
// such file.
func tokenIn(dir, name string) (string, error) {
	root, err := saferoot.Open(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	b, err := root.ReadFile(name, maxToken)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if strings.ContainsAny(text, " \t\r\n") {
		return "", berth.Errorf(berth.Invalid, "%s holds no token", filepath.Join(dir, name))
	}
	return text, os.Chmod(filepath.Join(dir, name), 0o600)
}
