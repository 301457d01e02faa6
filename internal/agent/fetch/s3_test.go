package fetch

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/agent/isolate/isolatetest"
)

// The examples of AWS's documentation ("Signature Calculations for the Authorization
// Header: Examples") have these signatures.
func TestSignaturesOfTheDocumentation(t *testing.T) {
	k := &keys{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1"}
	for query, want := range map[string]string{
		"?lifecycle":           "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		"?max-keys=2&prefix=J": "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
	} {
		r, err := http.NewRequest("GET", "https://examplebucket.s3.amazonaws.com/"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.sign(r, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
		if got := r.Header.Get("Authorization"); got != "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature="+want {
			t.Errorf("%s: %s", query, got)
		}
	}
}

func TestKeysOfSources(t *testing.T) {
	for source, want := range map[string]string{
		"s3::https://s3-eu-west-1.amazonaws.com/b/k":                                                        "s3-eu-west-1.amazonaws.com eu-west-1  https://s3-eu-west-1.amazonaws.com/b/k",
		"s3::https://b.s3.us-gov-west-1.amazonaws.com/k?version=7":                                          "b.s3.us-gov-west-1.amazonaws.com us-gov-west-1  https://b.s3.us-gov-west-1.amazonaws.com/k?versionId=7",
		"s3::https://b.s3.dualstack.eu-north-1.amazonaws.com/k":                                             "b.s3.dualstack.eu-north-1.amazonaws.com eu-north-1  https://b.s3.dualstack.eu-north-1.amazonaws.com/k",
		"s3::https://s3.amazonaws.com/b/k":                                                                  "s3.amazonaws.com us-east-1  https://s3.amazonaws.com/b/k",
		"s3::http://127.0.0.1:9000/b/k?region=x&aws_access_key_id=i&aws_access_key_secret=s&checksum=md5:a": "127.0.0.1:9000 x i http://127.0.0.1:9000/b/k?checksum=md5%3Aa",
	} {
		p, err := parse(source)
		if err != nil || p.keys == nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		got := strings.Join([]string{p.keys.host, p.keys.region, p.keys.id, p.plain}, " ")
		if got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
	for source, want := range map[string]string{
		"s3::bucket/key": "must be followed by", "s3::file:///etc/passwd": "must be followed by", "s3::https://u:p@h/b/k": "not in the address", "s3::https://h/b/k?aws_profile=x": "aws_profile is not supported",
		"s3::https://h/b/k?aws_access_key_id=i": "given together", "s3::git::https://h/b/k": "must be followed by",
	} {
		if _, err := parse(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// store is a store that checks signatures by signing what it was asked itself.
func store(t *testing.T, secret string, objects map[string][]byte) (*httptest.Server, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.RequestURI+" "+r.Header.Get("X-Amz-Security-Token"))
		mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/private/") {
			at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
			again, _ := http.NewRequest(r.Method, "http://"+r.Host+r.RequestURI, nil)
			k := keys{id: "id", secret: secret, token: r.Header.Get("X-Amz-Security-Token"), region: "eu-west-1"}
			k.sign(again, at)
			if err != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") {
				http.Error(w, "SignatureDoesNotMatch", http.StatusForbidden)
				return
			}
		} else if r.Header.Get("Authorization") != "" {
			http.Error(w, "signed without need", http.StatusBadRequest)
			return
		}
		b, ok := objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	return s, func() []string { mu.Lock(); defer mu.Unlock(); return seen }
}

// Objects of a store are fetched like files: with the keys of the source, of its options
// or of the agent's environment, and without, where all may read them.
func TestObjectsOfAStore(t *testing.T) {
	archive := tarGz(t, entry{name: "bin/app", text: "app"})
	s, seen := store(t, "se/cr+et", map[string][]byte{"/private/app.tgz": archive, "/private/a b+c=ü.txt": []byte("odd"), "/public/x": []byte("x")})
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "se/cr+et")
	options := map[string]string{"aws_access_key_id": "id", "aws_access_key_secret": "se/cr+et", "aws_access_token": "tok/en=", "region": "eu-west-1"}
	r := newRig(t, Config{})
	for _, c := range []struct {
		source  string
		options map[string]string
		env     []string
		dst     string
		fails   string
	}{
		{"/private/app.tgz", options, nil, "task/local/1", ""},
		{"/private/a%20b+c=%C3%BC.txt?archive=false", options, nil, "task/local/2", ""},
		{"/private/app.tgz//bin?region=eu-west-1", nil, []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, "task/local/3", ""},
		{"/public/x", nil, nil, "task/local/4", ""},
		{"/private/app.tgz", nil, nil, "task/local/5", "403"},
		{"/private/app.tgz", map[string]string{"aws_access_key_id": "id", "aws_access_key_secret": "wrong", "region": "eu-west-1"}, nil, "task/local/6", "403"},
		{"/private/none", options, nil, "task/local/7", "404"},
	} {
		r.Fetcher = New(Config{Command: isolatetest.Command(), Env: c.env})
		err := r.get(t, Artifact{Source: "s3::" + s.URL + c.source, Options: c.options}, c.dst)
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v, want %q", c.source, err, c.fails)
		}
		if err != nil && (strings.Contains(err.Error(), "se/cr") || strings.Contains(err.Error(), url.QueryEscape("se/cr+et")) || strings.Contains(err.Error(), "tok")) {
			t.Errorf("%s: it tells %v", c.source, err)
		}
	}
	for file, want := range map[string]string{"1/bin/app": "app", "2/a b+c=ü.txt": "odd", "3/app": "app", "4/x": "x"} {
		if b, err := os.ReadFile(filepath.Join(r.root.Path(), "task/local", file)); string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	for _, q := range seen() { // no secret goes to the store
		if strings.Contains(q, "aws_") || strings.Contains(q, "region") {
			t.Errorf("asked for %s", q)
		}
	}
}
