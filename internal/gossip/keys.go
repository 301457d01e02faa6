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

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// NewKey returns a new key, as text: 32 bytes, for AES-256.
func NewKey() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// ParseKey reads the text of a key: 16, 24 or 32 bytes in base64. Its errors
// do not repeat what was said.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "a key is wanted: 16, 24 or 32 bytes in base64; this is not base64")
	}
	if len(key) != 16 && len(key) != 24 && len(key) != 32 {
		return nil, berth.Errorf(berth.Invalid, "a key is wanted: 16, 24 or 32 bytes in base64; these are %d", len(key))
	}
	return key, nil
}

func (c *Config) keyringFile() string { return filepath.Join(c.Dir, "keyring") }

// keyring returns the keys to use: those of the file if there is one, for they
// may have been changed since the configuration was written.
func (c *Config) keyring() (*memberlist.Keyring, error) {
	keys := c.Keys
	if c.Dir != "" {
		kept, err := readKeyring(c.keyringFile())
		if err != nil {
			return nil, err
		}
		if len(kept) > 0 && len(keys) > 0 && !bytes.Equal(kept[0], keys[0]) {
			c.Logger.Warn("the key of the configuration is not used: the keyring, which was changed since, has another", "file", c.keyringFile())
		}
		if len(kept) > 0 {
			keys = kept
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "encrypt: %w", err)
	}
	if c.Dir == "" {
		return ring, nil
	}
	return ring, writeKeyring(c.keyringFile(), ring.GetKeys())
}

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
		err = errors.New("there is no key in it")
	}
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "the keyring %s is damaged: %w; remove it to begin with the key of the configuration", file, err)
	}
	return keys, nil
}

// writeKeyring writes the file whole or not at all, for this user alone.
func writeKeyring(file string, keys [][]byte) error {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = base64.StdEncoding.EncodeToString(k)
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	err = os.WriteFile(file+".new", text, 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write the keyring: %w", err)
	}
	return nil
}

// KeyAnswer is what the servers said when they were asked about keys.
type KeyAnswer struct {
	Nodes    int               // servers that were asked
	Keys     map[string]int    // how many of them hold a key, by its text
	Primary  map[string]int    // how many of them send with it
	Messages map[string]string // what those said that could not do it, by name
}

// Keys asks all servers which keys they hold. An error comes with what there
// is of an answer.
func (p *Pool) Keys() (KeyAnswer, error) {
	return p.keys("", func(k *serf.KeyManager, _ string) (*serf.KeyResponse, error) { return k.ListKeys() })
}

// InstallKey lets all servers read what is encrypted with a key.
func (p *Pool) InstallKey(key string) (KeyAnswer, error) {
	return p.keys(key, (*serf.KeyManager).InstallKey)
}

// UseKey lets all servers send with a key that they hold.
func (p *Pool) UseKey(key string) (KeyAnswer, error) { return p.keys(key, (*serf.KeyManager).UseKey) }

// RemoveKey lets all servers forget a key, unless they send with it.
func (p *Pool) RemoveKey(key string) (KeyAnswer, error) {
	return p.keys(key, (*serf.KeyManager).RemoveKey)
}

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
