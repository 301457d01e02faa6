package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// C41, a row of docs/advisories.md: what an agent says of itself has no key, token
// or passphrase of its configuration.
func TestAdvisory_C41_AgentsHideTheirSecrets(t *testing.T) {
	pass := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(pass, []byte("canary-passphrase-of-the-keyring"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LWNhbmE="
	s := startAgent(t, `
name = "n1"
client {
  network_interface = "lo"
  intro_token       = "canary-intro-token"
  meta { "colour" = "red" }
}
server { encrypt = "`+key+`" }
keyring "passphrase" { passphrase_file = "`+pass+`" }`)
	for _, path := range []string{"/v1/agent/self", "/v1/agent/members", "/v1/metrics", "/v1/node/" + s.NodeID().String(), "/v1/nodes", "/v1/agent/health", "/v1/operator/keyring/keys", "/v1/agent/host"} {
		code, _, text := s.get(t, path)
		if path == "/v1/agent/self" && (code != http.StatusOK || !strings.Contains(text, "n1")) {
			t.Errorf("%s: %d %s", path, code, text)
		}
		for _, secret := range []string{"canary-", key} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q: %s", path, secret, text)
			}
		}
	}
}
