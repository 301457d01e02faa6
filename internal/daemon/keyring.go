package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/config"
	"berth/internal/keyring"
	"berth/internal/server"
)

// keyring sets what the server wraps root keys with. A provider that is not the
// active one still unwraps what it wrapped before.
func (d *Daemon) keyring(c *server.Config) error {
	conf := &d.conf.Keyring
	c.Wrapping = keyring.NewFiles(filepath.Join(c.DataDir, "keyring"))
	if conf.PassphraseFile == "" {
		c.Keyring = keyring.New(conf.Signing, c.Wrapping)
		return nil
	}
	text, err := os.ReadFile(conf.PassphraseFile)
	if err != nil {
		return fmt.Errorf("keyring.passphrase: %w", err)
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return fmt.Errorf("keyring.passphrase: %s is empty", conf.PassphraseFile)
	}
	phrase := keyring.NewPassphrase(string(text))
	if conf.Active == config.ProviderPassphrase {
		c.Keyring = keyring.New(conf.Signing, phrase, c.Wrapping)
	} else {
		c.Keyring = keyring.New(conf.Signing, c.Wrapping, phrase)
	}
	return nil
}
