package isolated

import (
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/isolate"
	"berth/internal/agent/supervise"
)

// What a task sees of the host's files.

// programs are the host's directories of programs and libraries.
var programs = []string{"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32"}

// settings are what programs look up in /etc and is no secret of the host. * is
// any text. Private keys and password hashes are not among them.
var settings = []string{
	"alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "fonts", "gai.conf", "group", "host.conf", "hostname", "hosts", "inputrc", "java-*",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "magic", "mime.types", "networks", "nsswitch.conf", "os-release",
	"passwd", "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "profile", "profile.d", "protocols", "resolv.conf", "rpc", "services", "shells",
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "terminfo", "timezone",
}

// binds returns what of the host is in a task's tree.
func (d *Driver) binds() (out []isolate.Bind) {
	if d.c.Chroot != nil {
		for _, source := range slices.Sorted(maps.Keys(d.c.Chroot)) {
			out = append(out, isolate.Bind{Source: source, Destination: d.c.Chroot[source]})
		}
		return out
	}
	for _, p := range programs {
		out = append(out, isolate.Bind{Source: p, Destination: p})
	}
	for _, s := range settings {
		found, _ := filepath.Glob("/etc/" + s)
		for _, p := range found {
			out = append(out, isolate.Bind{Source: p, Destination: p})
		}
	}
	return out
}

// environment returns the task's variables with the paths of its own tree.
func environment(t *driver.Task, who *supervise.User) []string {
	inside := map[string]string{"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets"}
	if t.User == "" { // the agent's own would lead where the task cannot go
		name, home := defaultUser, process.Home(defaultUser)
		if _, err := user.LookupId(strconv.FormatUint(uint64(who.UID), 10)); err != nil { // a number that has no name
			name, home = strconv.FormatUint(uint64(who.UID), 10), "/local"
		}
		if home != "" {
			for name, value := range map[string]string{"USER": name, "LOGNAME": name, "HOME": home} {
				if was, ok := os.LookupEnv(name); ok && slices.Contains(t.Env, name+"="+was) {
					inside[name] = value
				}
			}
		}
	}
	var out []string
	for _, v := range t.Env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case inside[name] != "":
			continue
		case name == "TMPDIR" && value == filepath.Join(t.Dir, "tmp"):
			v = "TMPDIR=/tmp"
		}
		out = append(out, v)
	}
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		out = append(out, name+"="+inside[name])
	}
	return out
}
