package fetch

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	getter "github.com/hashicorp/go-getter/v2"

	"berth/internal/agent/isolate"
	"berth/internal/failpoint"
)

// The names in the directory of the process.
const (
	rawName  = "raw"  // what was downloaded
	treeName = "tree" // what was unpacked, or a repository
	fileName = "file" // one file that was unpacked
)

// Main is the process that fetches. It returns its exit status.
func Main() int {
	if err := isolate.Helped(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a, err := o.fetch(context.Background())
	if err != nil {
		a = &answer{Err: Shown(err.Error())}
		_, a.Bad = errors.AsType[*badArtifact](err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		return 1
	}
	return 0
}

// badArtifact is an error that another try would only repeat.
type badArtifact struct{ text string }

func (b *badArtifact) Error() string { return b.text }

func bad(format string, args ...any) error { return &badArtifact{fmt.Sprintf(format, args...)} }

// parsed is a source taken apart.
type parsed struct {
	plain   string // for the library
	sub     string // directory in it
	archive string // what its parameter says; "" is nothing
	name    string // of the file
	git     bool
	keys    *keys // for requests to an object store; nil for other sources
}

// parse takes a source apart.
func parse(source string) (*parsed, error) {
	src, sub := getter.SourceDirSubdir(source)
	p := &parsed{sub: path.Clean("/" + sub)[1:]}
	if strings.Contains("/"+sub+"/", "/../") {
		return nil, bad("the directory %q leads out of the artifact", sub)
	}
	before, query, _ := strings.Cut(src, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, bad("the source cannot be read: %v", err)
	}
	p.archive, p.name = q.Get("archive"), q.Get("filename")
	q.Del("archive")
	q.Del("filename")
	if address, ok := strings.CutPrefix(before, s3Prefix); ok {
		if p.keys, err = takeKeys(address, q); err != nil {
			return nil, err
		}
		before = address
	}
	p.plain = before
	if len(q) > 0 {
		p.plain += "?" + q.Encode()
	}
	if p.name == "" {
		p.name = path.Base(before)
		if u, err := url.Parse(before); err == nil && u.Path != "" {
			p.name = path.Base(u.Path)
		}
	}
	if p.name == "." || p.name == "/" || p.name == ".." || strings.ContainsAny(p.name, "/\\\x00") {
		return nil, bad("%q is not the name of a file", p.name)
	}
	scheme, _, _ := strings.Cut(before, ":")
	switch {
	case strings.HasPrefix(before, "gcs::"), strings.HasPrefix(before, "hg::"), strings.HasPrefix(before, "smb::"), scheme == "smb":
		return nil, bad("sources of the kind %s are not supported: use the https URL of the object, or git", scheme)
	case scheme == "file", strings.HasPrefix(before, "/"), strings.HasPrefix(before, "."):
		return nil, bad("files of the host are not artifacts: use a host volume")
	}
	if p.keys != nil {
		return p, nil
	}
	p.git, err = getter.Detect(&getter.Request{Src: p.plain}, gits(0))
	if err != nil {
		return nil, bad("the source cannot be read: %v", err)
	}
	return p, nil
}

func gits(timeout time.Duration) *getter.GitGetter {
	return &getter.GitGetter{Timeout: timeout, Detectors: []getter.Detector{
		new(getter.GitHubDetector), new(getter.GitDetector), new(getter.GitLabDetector), new(getter.BitBucketDetector),
	}}
}

// fetch downloads and unpacks.
func (o *order) fetch(ctx context.Context) (*answer, error) {
	p, err := parse(o.Source)
	if err != nil {
		return nil, err
	}
	if !o.Have {
		if err := o.download(ctx, p); err != nil {
			return nil, err
		}
	}
	_ = failpoint.Hit("fetch/downloaded")
	if p.git {
		if o.Mode == ModeFile && p.sub == "" {
			return nil, bad("mode: a repository is a directory, and cannot be fetched with mode file")
		}
		if err := os.RemoveAll(treeName + "/.git"); err != nil {
			return nil, err
		}
		return inTree(p, "")
	}
	kind := kindOf(p)
	if kind == "" {
		if o.Mode == ModeDir {
			return nil, bad("mode: %s is not an archive, and cannot be fetched with mode dir", p.name)
		}
		if p.sub != "" {
			return nil, bad("%s is not an archive and has no directory %q", p.name, p.sub)
		}
		return &answer{Root: rawName, Name: p.name, Raw: rawName}, nil
	}
	u := unpacker{limit: o.MaxUnpacked, files: o.MaxFiles}
	single, err := u.unpack(kind)
	if err != nil {
		return nil, err
	}
	_ = failpoint.Hit("fetch/unpacked")
	if single {
		if o.Mode == ModeDir {
			return nil, bad("mode: %s is one file, and cannot be fetched with mode dir", p.name)
		}
		return &answer{Root: fileName, Name: strings.TrimSuffix(p.name, path.Ext(p.name)), Raw: rawName}, nil
	}
	if o.Mode == ModeFile {
		entries, err := os.ReadDir(treeName)
		if err != nil || len(entries) != 1 || !entries[0].Type().IsRegular() {
			return nil, bad("mode: with mode file an archive must have exactly one file")
		}
		return &answer{Root: treeName + "/" + entries[0].Name(), Name: entries[0].Name(), Raw: rawName}, nil
	}
	return inTree(p, rawName)
}

// inTree answers with a directory of the tree.
func inTree(p *parsed, raw string) (*answer, error) {
	a := &answer{Root: path.Join(treeName, p.sub), Raw: raw}
	root, err := os.OpenRoot(treeName)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if p.sub == "" {
		return a, nil
	}
	st, err := root.Lstat(p.sub)
	switch {
	case err != nil:
		return nil, bad("the artifact has no %q", p.sub)
	case st.Mode().IsRegular():
		a.Name = path.Base(p.sub)
	case !st.IsDir():
		return nil, bad("%q in the artifact is not a directory", p.sub)
	}
	return a, nil
}

// download has the library download.
func (o *order) download(ctx context.Context, p *parsed) error {
	timeout := o.HTTPTimeout
	if p.git {
		timeout = o.GitTimeout
	}
	header := http.Header{}
	for k, v := range o.Headers {
		header.Set(k, v)
	}
	client := o.client()
	if p.keys != nil {
		timeout, client.Transport = o.S3Timeout, &signing{client.Transport, p.keys}
	}
	web := &getter.HttpGetter{
		Client: client, Header: header, MaxBytes: o.MaxBytes, XTerraformGetDisabled: true, DoNotCheckHeadFirst: true, ReadTimeout: timeout,
	}
	getters := []getter.Getter{web}
	if p.keys == nil {
		getters = []getter.Getter{gits(o.GitTimeout), web}
	}
	c := getter.Client{Getters: getters, Decompressors: map[string]getter.Decompressor{}, DisableSymlinks: true}
	r := getter.Request{Src: p.plain, Dst: rawName, GetMode: getter.ModeFile, DisableSymlinks: true}
	if p.git {
		r.Dst, r.GetMode = treeName, getter.ModeDir
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := c.Get(ctx, &r)
	if sum, ok := errors.AsType[*getter.ChecksumError](err); ok {
		return bad("the checksum is %x and should be %x", sum.Actual, sum.Expected)
	}
	if err != nil {
		return fmt.Errorf("%s", strings.TrimSpace(err.Error()))
	}
	if st, err := os.Lstat(rawName); err == nil && st.Size() >= o.MaxBytes {
		return bad("it has more than %d bytes", o.MaxBytes)
	}
	return nil
}

// client returns a client that reaches no address of the link: those tell a
// machine in a cloud its secrets. Redirects are dialed by it, too.
func (o *order) client() *http.Client {
	dialer := net.Dialer{Timeout: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if ip := a.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
			return fmt.Errorf("artifacts are not fetched from %s: it is an address of this link only", ip)
		}
		return nil
	}}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = dialer.DialContext
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: o.Insecure, MinVersion: tls.VersionTLS12}
	t.DisableCompression = true
	t.MaxResponseHeaderBytes = 1 << 20
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return fmt.Errorf("more than 10 redirects")
		}
		if r.URL.Host != via[0].URL.Host { // headers may hold what is meant for the first alone
			for k := range o.Headers {
				r.Header.Del(k)
			}
		}
		return nil
	}}
}

// kindOf returns which kind of archive a file is, "" for none.
func kindOf(p *parsed) string {
	if p.archive != "" {
		if yes, err := strconv.ParseBool(p.archive); err == nil && !yes {
			return ""
		} else if err != nil {
			return p.archive
		}
	}
	for _, kind := range kinds {
		if strings.HasSuffix(strings.ToLower(p.name), "."+kind) {
			return kind
		}
	}
	return ""
}
