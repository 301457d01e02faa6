package fetch

import (
	"net"
	"net/url"
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://u:p@h/x?k=v&s=w": EOF`:            `Get "https://…@h/x?…": EOF`,
		"git::https://u@h/x.git//sub?sshkey=abc":        "git::https://…@h/x.git//sub?…",
		"fatal: 'ssh://u:p@h:22/x' is away":             "fatal: 'ssh://…@h:22/x' is away",
		"https://h/x#token=a b?":                        "https://h/x?… b?",
		"https://${NOMAD_META_u}:p@h/${X}?a=${S}":       "https://…@h/${X}?…",
		"nothing? a@b, see http://h/":                   "nothing? a@b, see http://h/",
		"https://a@b/c and s3::https://h/b/k?region=eu": "https://…@b/c and s3::https://h/b/k?…",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// However a source with credentials cannot be fetched, none of them is in the error, from
// which events are made.
func TestErrorsHaveNoCredentials(t *testing.T) {
	r := newRig(t, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	const canary = "ca4ary"
	u, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	withUser := "http://user-" + canary + ":pw-" + canary + "@" + u.Host
	r.files["/x"] = []byte("x")
	for _, source := range []string{
		closed + "/x?aws_access_key_secret=" + canary, closed + "/x?checksum=sha256:" + strings.Repeat("0", 64) + "&token=" + canary + "&archive=false",
		"URL/none?X-Amz-Signature=" + canary, "URL/x?to=" + url.QueryEscape(closed+"/y?X-Amz-Signature="+canary), withUser + "/none", withUser + "/x?archive=zip", "git::" + withUser + "/x.git",
		"git::" + closed + "/x.git?ref=a&sshkey=" + canary, "s3::" + closed + "/bucket/key?aws_access_key_id=" + canary + "&aws_access_key_secret=" + canary,
		"gcs::https://www.googleapis.com/storage/v1/bucket/key?token=" + canary, "unknown://u:" + canary + "@h/x", "http://[" + "::1/?" + canary, closed + "/%zz?" + canary,
	} {
		err := r.get(t, Artifact{Source: source, Headers: map[string]string{"Authorization": "Bearer " + canary}, Options: map[string]string{"aws_access_token": canary}}, "task/local")
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", source, err)
		}
		t.Logf("%v", err)
	}
}
