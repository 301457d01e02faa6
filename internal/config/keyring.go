package config

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"
)

// Keyring configures what root keys are wrapped with in the state.
type Keyring struct {
	Active         string // the provider that wraps new keys: ProviderAEAD or ProviderPassphrase
	PassphraseFile string // absolute; "": there is no passphrase
	Signing        string // how new keys sign identities: berth.SignEdDSA or berth.SignRS256
}

// The providers of keyring blocks.
const (
	ProviderAEAD       = "aead"       // a key in a file of each server
	ProviderPassphrase = "passphrase" // a passphrase that every server is given
)

// foreignProviders are those of Nomad that Berth does not support.
var foreignProviders = []string{"awskms", "azurekeyvault", "gcpckms", "ocikms", "alicloudkms", "transit"}

// keyringBlock is one keyring block.
type keyringBlock struct {
	active        bool
	file, signing string
}

// keyrings reads the keyring blocks.
func keyrings(d *decoder, path string, n *node) {
	o, ok := n.value.(object)
	if !ok {
		d.addf(n.pos, path, `must be a block with a name: keyring "aead" { }, got %s`, kind(n.value))
		return
	}
	blocks := map[string]*keyringBlock{}
	for _, name := range o.keys() {
		at := decode.Join(path, name)
		d.setAt[at] = o[name].pos
		switch {
		case slices.Contains(foreignProviders, name):
			d.addf(o[name].pos, at, "this provider is not supported: use aead or passphrase")
			continue
		case name != ProviderAEAD && name != ProviderPassphrase:
			d.addf(o[name].pos, berth.Clip(at, 100), "unknown provider: want aead or passphrase")
			continue
		}
		if _, ok := o[name].value.(object); !ok {
			d.addf(o[name].pos, at, "must be a block with a name: keyring %q { }", name)
			continue
		}
		b := &keyringBlock{active: true}
		keys := table{
			"active":            flagInto(&b.active),
			"name":              anyText,
			"signing_algorithm": textInto(&b.signing),
		}
		if name == ProviderPassphrase {
			keys["passphrase_file"] = textInto(&b.file)
		}
		d.block(at, o[name], keys)
		blocks[name] = b
	}
	d.keyring(path, blocks)
}

// anyText accepts any text, which has no effect.
func anyText(d *decoder, path string, n *node) { d.text(path, n) }

// keyring checks the blocks and keeps what they say.
func (d *decoder) keyring(path string, blocks map[string]*keyringBlock) {
	k := &d.to.Keyring
	var active []string
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		b, at := blocks[name], decode.Join(path, name)
		if b.active {
			active = append(active, name)
		}
		switch b.signing {
		case "":
		case berth.SignEdDSA, berth.SignRS256:
			if b.active {
				k.Signing = b.signing
			}
		default:
			d.fail(at+".signing_algorithm", "must be %s or %s, got %.40q", berth.SignEdDSA, berth.SignRS256, b.signing)
		}
		if name != ProviderPassphrase {
			continue
		}
		switch info, err := os.Stat(b.file); {
		case b.file == "":
			d.fail(at, "passphrase_file is missing: set the file that has the passphrase")
		case !filepath.IsAbs(b.file):
			d.fail(at+".passphrase_file", "%.200q is not an absolute path", b.file)
		case err != nil:
			d.fail(at+".passphrase_file", "%.200q: %s", b.file, cause(err))
		case info.Mode().Perm()&0o077 != 0:
			d.fail(at+".passphrase_file", "%.200q can be read by others than its owner: its mode is %#o, want 0600", b.file, info.Mode().Perm())
		}
		k.PassphraseFile = b.file
	}
	switch len(active) {
	case 1:
		k.Active = active[0]
	case 0:
		if len(blocks) > 0 {
			d.fail(path, "no block is active: set active = true in one of them")
		}
	default:
		d.fail(path, "only one block can be active, got %s", strings.Join(active, ", "))
	}
}

// issuer checks the name that identities are issued under: OpenID Connect has
// verifiers find the keys below it.
func (d *decoder) issuer() {
	s := d.to.Server.Issuer
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		d.fail("server.oidc_issuer", "must be an address such as https://nomad.example.com, got %.200q", s)
		return
	}
	if u.Scheme == "http" {
		d.warnf("server.oidc_issuer is not an https address: many verifiers accept no other")
	}
}
