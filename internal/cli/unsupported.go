package cli

import "strings"

// refusals say why commands of Nomad are refused, and what to use instead. The
// key is a command or a group; the longest that fits counts.
var refusals = map[string]string{
	"license":                       "Berth has no licenses",
	"recommendation":                "recommendations of sizes are a feature of Nomad Enterprise; \"alloc status -stats\" shows what tasks use",
	"sentinel":                      "Sentinel policies are a feature of Nomad Enterprise; access is controlled with \"acl policy\"",
	"operator utilization":          "reports of utilization are a feature of Nomad Enterprise; \"operator metrics\" has the figures",
	"operator snapshot agent":       "it is a feature of Nomad Enterprise; run \"operator snapshot save\" from a periodic job or a timer",
	"setup":                         "Berth has no integration of Consul or Vault",
	"setup consul":                  "Berth has no integration of Consul; services have native discovery (provider = \"nomad\")",
	"setup vault":                   "Berth has no integration of Vault; variables hold secrets",
	"operator raft migrate-backend": "the log of a server has only one format",
	"windows":                       "agents run on Linux only",
}

// reasonFor returns ": why" for a command that is refused, "" if there is no
// more to say than that.
func reasonFor(name string) string {
	words := strings.Fields(name)
	for n := len(words); n > 0; n-- {
		if r := refusals[strings.Join(words[:n], " ")]; r != "" {
			return ": " + r
		}
	}
	return ""
}

// flagRefusals say why flags of Nomad are refused, and what to use instead. The
// key is a flag, or how several begin; the longest that fits counts.
var flagRefusals = map[string]string{
	"accessor":                  "servers choose the accessor ID; read it with -t '{{.AccessorID}}'",
	"connect":                   "Consul Connect is not supported; services with provider = \"nomad\" find each other without it",
	"consul":                    "Berth has no integration of Consul; services have native discovery (provider = \"nomad\")",
	"dev-connect":               "Consul Connect is not supported; use -dev",
	"dev-consul":                "Berth has no integration of Consul; use -dev",
	"dev-vault":                 "Berth has no integration of Vault; use -dev",
	"disable-upgrade-migration": "upgrade migrations are a feature of Nomad Enterprise; replace servers one by one",
	"enable-custom-upgrades":    "upgrade migrations are a feature of Nomad Enterprise; replace servers one by one",
	"enable-redundancy-zones":   "redundancy zones are a feature of Nomad Enterprise; non_voting_server keeps a server as a spare",
	"eventlog":                  "agents run on Linux only; use enable_syslog or log_file",
	"hcl1":                      "HCL1 is not supported; write the job in HCL2 or JSON",
	"policy-override":           "Sentinel policies are a feature of Nomad Enterprise; access is controlled with \"acl policy\"",
	"vault":                     "Berth has no integration of Vault; variables hold secrets",
}

// reasonForFlag is reasonFor for flags.
func reasonForFlag(name string) string {
	best := ""
	for k := range flagRefusals {
		if strings.HasPrefix(name, k) && len(k) > len(best) {
			best = k
		}
	}
	if best == "" {
		return ""
	}
	return ": " + flagRefusals[best]
}
