// Package cloud asks the metadata service of the cloud that a machine runs in
// what it is there: attributes for constraints, such as the zone. Names are those
// that Nomad documents: platform.aws.instance-type, and unique.platform.aws.… for
// what no other machine has.
//
// A cloud is only asked on a machine whose firmware names it, or if the
// configuration has a block for it. Nothing secret is kept: no user data, no keys,
// no roles.
package cloud

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth/internal/limit"
	"berth/internal/pattern"
	"berth/internal/rest"
)

// Fingerprint is what a fingerprint block says of one cloud.
type Fingerprint struct {
	RetryAttempts int           // after the first attempt; -1: until it answers
	RetryInterval time.Duration // between two attempts
	ExitOnFailure bool          // the agent ends if the cloud does not answer
}

// Default is a block that says nothing.
var Default = Fingerprint{RetryInterval: 2 * time.Second}

const (
	patience   = 2 * time.Second // for one answer
	maxAnswer  = 256 << 10       // bytes
	maxValue   = 1 << 10         // bytes of an attribute
	maxEntries = 64              // tags, or networks, of a machine
)

var _ = []*limit.Limit{
	limit.Bound("cloud_answer", "Bytes of an answer of a cloud's metadata service", limit.Bytes, maxAnswer, "the cloud counts as silent"),
	limit.Bound("cloud_patience", "Time for an answer of a cloud's metadata service", limit.Time, int64(patience), "the cloud counts as silent"),
	limit.Bound("cloud_value", "Bytes of an attribute that a cloud says", limit.Bytes, maxValue, "the attribute is left out"),
	limit.Bound("cloud_entries", "Tags or networks that a cloud says", limit.Count, maxEntries, "those beyond are left out"),
}

// service is the metadata service of one cloud.
type service struct {
	env, url string      // the variable that names another address, and the address
	header   http.Header // that each request needs
	vendor   string      // how the firmware's vendor begins
	ask      func(context.Context, *asker) (map[string]string, error)
}

// services are those that can be asked, by the label of their block.
var services = map[string]*service{
	"env_aws":          {env: "AWS_ENV_URL", url: "http://169.254.169.254/latest/meta-data/", vendor: "Amazon", ask: aws},
	"env_azure":        {env: "AZURE_ENV_URL", url: "http://169.254.169.254/metadata/instance/", header: http.Header{"Metadata": {"true"}}, vendor: "Microsoft", ask: azure},
	"env_digitalocean": {env: "DO_ENV_URL", url: "http://169.254.169.254/metadata/v1/", vendor: "DigitalOcean", ask: digitalOcean},
	"env_gce":          {env: "GCE_ENV_URL", url: "http://169.254.169.254/computeMetadata/v1/instance/", header: http.Header{"Metadata-Flavor": {"Google"}}, vendor: "Google", ask: gce},
}

// Names returns the labels that a fingerprint block may have, in order.
func Names() []string { return slices.Sorted(maps.Keys(services)) }

// Here returns the label of the cloud that the firmware of this machine names, or
// "". It asks nobody.
func Here() string {
	vendor, err := os.ReadFile("/sys/class/dmi/id/sys_vendor")
	if err != nil {
		return ""
	}
	return byVendor(string(vendor))
}

func byVendor(vendor string) string {
	for name, s := range services {
		if strings.HasPrefix(vendor, s.vendor) {
			return name
		}
	}
	return ""
}

// Ask asks a cloud, as often as f says, and returns the attributes of this
// machine. It fails with the last reason if the cloud does not answer.
func Ask(ctx context.Context, name string, f Fingerprint, log *slog.Logger) (map[string]string, error) {
	for n := 0; ; n++ {
		attributes, err := once(ctx, name)
		if err == nil || ctx.Err() != nil || f.RetryAttempts >= 0 && n >= f.RetryAttempts {
			return attributes, err
		}
		log.Debug("a cloud's metadata service does not answer", "fingerprint", name, "attempt", n+1, "error", err)
		if err := rest.For(ctx, f.RetryInterval); err != nil {
			return nil, err
		}
	}
}

// once asks a cloud once.
func once(ctx context.Context, name string) (map[string]string, error) {
	s := services[name]
	a := &asker{base: s.url, header: s.header, client: &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy: it would answer for its own machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if other := os.Getenv(s.env); other != "" {
		a.base = strings.TrimSuffix(other, "/") + "/"
	}
	found, err := s.ask(ctx, a)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(k, v string) bool {
		return v == "" || len(v) > maxValue || !utf8.ValidString(v) || strings.ContainsRune(v, 0) || !keyForm.MatchString(k)
	})
	return found, nil
}

// keyForm is what jobs can refer to as ${attr.…}.
var keyForm = pattern.New(`^[a-zA-Z0-9_.\-/]{1,128}$`)

// asker asks one metadata service.
type asker struct {
	base   string
	header http.Header
	client *http.Client
}

// notThere means that the service has no such value.
type notThere struct{ url string }

func (e notThere) Error() string { return e.url + " answers 404" }

// get returns the body and the header of the answer at a path below the base.
func (a *asker) get(ctx context.Context, path string) (string, http.Header, error) {
	return a.call(ctx, http.MethodGet, a.base+path, a.header)
}

func (a *asker) call(ctx context.Context, method, url string, header http.Header) (string, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", nil, err
	}
	maps.Copy(req.Header, header)
	resp, err := a.client.Do(req)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", nil, err
	case resp.StatusCode == http.StatusNotFound:
		return "", nil, notThere{url}
	case resp.StatusCode != http.StatusOK:
		return "", nil, fmt.Errorf("%s answers %d", url, resp.StatusCode)
	case len(body) > maxAnswer:
		return "", nil, fmt.Errorf("%s answers with more than %d bytes", url, maxAnswer)
	}
	return strings.TrimSpace(string(body)), resp.Header, nil
}

// values asks for each path, and returns what is there by the attribute's name.
// The first path has to be there: it shows that this is the cloud.
func (a *asker) values(ctx context.Context, list [][2]string) (map[string]string, error) {
	out := map[string]string{}
	for i, x := range list {
		v, _, err := a.get(ctx, x[1])
		if _, none := err.(notThere); none && i > 0 {
			continue
		} else if err != nil {
			return nil, err
		}
		out[x[0]] = v
	}
	return out, nil
}
