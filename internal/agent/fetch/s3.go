package fetch

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Objects of stores that speak the protocol of Amazon S3: s3::https://host/bucket/key.
// A request is signed as AWS documents it ("Signature Version 4") with the keys that
// the source has as parameters, or the environment. Without keys it is not signed, as
// for objects that all may read.

// keys are what requests to a store are signed with.
type keys struct {
	host              string // requests to others, as after a redirect, are not signed
	id, secret, token string
	region            string
}

// s3Prefix begins the sources of this kind.
const s3Prefix = "s3::"

// hostRegion finds the region in the name of a host of Amazon.
var hostRegion = regexp.MustCompile(`(?:^|\.)s3[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?$`)

// takeKeys takes the keys of a source out of its parameters. address is the source
// without s3::.
func takeKeys(address string, q url.Values) (*keys, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, bad("s3:: must be followed by the address of an object: https://host/bucket/key")
	}
	if u.User != nil {
		return nil, bad("s3:: keys are given by the options aws_access_key_id and aws_access_key_secret, not in the address")
	}
	if q.Has("aws_profile") {
		return nil, bad("aws_profile is not supported: use the options aws_access_key_id and aws_access_key_secret")
	}
	take := func(name string) string {
		v := q.Get(name)
		q.Del(name)
		return v
	}
	k := &keys{host: u.Host, id: take("aws_access_key_id"), secret: take("aws_access_key_secret"), token: take("aws_access_token"), region: take("region")}
	if k.id == "" && k.secret == "" {
		k.id, k.secret, k.token = os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN")
	}
	if (k.id == "") != (k.secret == "") {
		return nil, bad("aws_access_key_id and aws_access_key_secret must be given together")
	}
	if k.region == "" {
		if m := hostRegion.FindStringSubmatch(u.Hostname()); m != nil {
			k.region = m[1]
		}
	}
	k.region = cmp.Or(k.region, os.Getenv("AWS_REGION"), "us-east-1")
	if v := take("version"); v != "" {
		q.Set("versionId", v)
	}
	return k, nil
}

// signing is a transport that signs requests to the host of the keys.
type signing struct {
	http.RoundTripper
	keys *keys
}

// RoundTrip implements [http.RoundTripper].
func (s *signing) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.keys.id != "" && r.URL.Host == s.keys.host {
		r = r.Clone(r.Context())
		s.keys.sign(r, time.Now())
	}
	return s.RoundTripper.RoundTrip(r)
}

// noBody is the hash of the body of a request that has none.
const noBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// sign adds the headers that prove that who asks has the secret.
func (k *keys) sign(r *http.Request, now time.Time) {
	at := now.UTC().Format("20060102T150405Z")
	scope := at[:8] + "/" + k.region + "/s3/aws4_request"
	r.Header.Set("X-Amz-Date", at)
	r.Header.Set("X-Amz-Content-Sha256", noBody)
	signed := []string{"host", "x-amz-content-sha256", "x-amz-date"}
	if k.token != "" {
		r.Header.Set("X-Amz-Security-Token", k.token)
		signed = append(signed, "x-amz-security-token")
	}
	var headers strings.Builder
	for _, name := range signed {
		v := r.Header.Get(name)
		if name == "host" {
			v = cmp.Or(r.Host, r.URL.Host)
		}
		headers.WriteString(name + ":" + strings.TrimSpace(v) + "\n")
	}
	names := strings.Join(signed, ";")
	request := strings.Join([]string{r.Method, canonical(cmp.Or(r.URL.Path, "/"), true), canonicalQuery(r.URL.Query()), headers.String(), names, noBody}, "\n")
	sum := sha256.Sum256([]byte(request))
	text := "AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + k.secret)
	for _, part := range append(strings.Split(scope, "/"), text) {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.id+"/"+scope+",SignedHeaders="+names+",Signature="+hex.EncodeToString(key))
	// The store reads the path as it was signed.
	r.URL.RawPath = canonical(r.URL.Path, true)
	r.URL.RawQuery = canonicalQuery(r.URL.Query())
}

// canonical encodes a text as AWS wants it.
func canonical(s string, path bool) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(plain, c) >= 0 || path && c == '/' {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}

// canonicalQuery encodes parameters in order.
func canonicalQuery(q url.Values) string {
	var all []string
	for k, vs := range q {
		for _, v := range vs {
			all = append(all, canonical(k, false)+"="+canonical(v, false))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}
