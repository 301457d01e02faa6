package gossip

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth"
	"berth/internal/durable"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// NewKey returns the text of a new key: 32 bytes in base64, for AES-256.
func NewKey() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// ParseKey decodes the text of a key: 16, 24 or 32 bytes in base64. Its errors
// do not contain the text.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "a key must be 16, 24 or 32 bytes in base64: not base64")
	}
	if len(key) != 16 && len(key) != 24 && len(key) != 32 {
		return nil, berth.Errorf(berth.Invalid, "a key must be 16, 24 or 32 bytes in base64: got %d bytes", len(key))
	}
	return key, nil
}

// keyringFile returns the path of the file that holds the keys; the first one
// encrypts.
func (c *Config) keyringFile() string { return filepath.Join(c.Dir, "keyring") }

// keyring returns the keys to use. The keyring file takes precedence, because
// keys may have been changed since the configuration was written.
func (c *Config) keyring() (*memberlist.Keyring, error) {
	keys := c.Keys
	if c.Dir != "" {
		kept, err := readKeyring(c.keyringFile())
		if err != nil {
			return nil, err
		}
		if len(kept) > 0 && len(keys) > 0 && !bytes.Equal(kept[0], keys[0]) {
			c.Logger.Warn("ignoring the key in the configuration: the keyring has a different one", "file", c.keyringFile())
		}
		if len(kept) > 0 {
			keys = kept
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	// The first key encrypts; all of them decrypt.
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "encrypt: %w", err)
	}
	if c.Dir == "" {
		return ring, nil
	}
	return ring, writeKeyring(c.keyringFile(), ring.GetKeys())
}

// readKeyring returns the keys in a file, or none if it does not exist. An
// empty or damaged file is an error: starting without keys would split the
// cluster.
func readKeyring(file string) (keys [][]byte, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the keyring: %w", err)
	}
	var list []string
	err = json.Unmarshal(text, &list)
	for _, s := range list {
		key, bad := ParseKey(s)
		keys, err = append(keys, key), errors.Join(err, bad)
	}
	if err == nil && len(keys) == 0 {
		err = errors.New("no keys")
	}
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "the keyring %s is damaged: %w; remove it to start with the key in the configuration", file, err)
	}
	return keys, nil
}

// writeKeyring replaces the file atomically and makes it readable for this user
// only.
func writeKeyring(file string, keys [][]byte) error {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = base64.StdEncoding.EncodeToString(k)
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(file, text); err != nil {
		return fmt.Errorf("write the keyring: %w", err)
	}
	return nil
}

// KeyAnswer is the combined answer of the servers to a key operation.
type KeyAnswer struct {
	Nodes    int               // servers that were asked
	Keys     map[string]int    // number of servers that have a key, by its text
	Primary  map[string]int    // number of servers that send with a key
	Messages map[string]string // errors of servers that failed, by server name
}

// Keys asks all servers which keys they have. With an error it returns the
// partial answer.
func (p *Pool) Keys() (KeyAnswer, error) {
	return p.keys("", func(k *serf.KeyManager, _ string) (*serf.KeyResponse, error) { return k.ListKeys() })
}

// InstallKey adds a key to all servers, which can then receive with it.
func (p *Pool) InstallKey(key string) (KeyAnswer, error) {
	return p.keys(key, (*serf.KeyManager).InstallKey)
}

// UseKey makes all servers send with a key that they have.
func (p *Pool) UseKey(key string) (KeyAnswer, error) { return p.keys(key, (*serf.KeyManager).UseKey) }

// RemoveKey removes a key from all servers, unless they send with it.
func (p *Pool) RemoveKey(key string) (KeyAnswer, error) {
	return p.keys(key, (*serf.KeyManager).RemoveKey)
}

// keys runs a change of the keyring on all servers and returns what they
// answered, even with an error. key may be empty for calls that need none.
func (p *Pool) keys(key string, do func(*serf.KeyManager, string) (*serf.KeyResponse, error)) (out KeyAnswer, err error) {
	if p.ring == nil {
		return out, berth.Errorf(berth.Invalid, "gossip is not encrypted: server.encrypt is not set")
	}
	if key != "" {
		if _, err := ParseKey(key); err != nil {
			return out, err
		}
	}
	r, err := do(p.serf.Load().KeyManager(), key)
	if r != nil {
		out = KeyAnswer{Nodes: r.NumNodes, Keys: r.Keys, Primary: r.PrimaryKeys, Messages: r.Messages}
	}
	return out, err
}
