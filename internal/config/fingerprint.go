package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/cloud"
	"berth/internal/decode"
)

// fingerprints reads the fingerprint blocks, each with the label of a cloud.
func fingerprints(d *decoder, path string, n *node) {
	d.to.Client.Fingerprints = named[cloud.Fingerprint](d, path, n, func(f *cloud.Fingerprint) table {
		*f = cloud.Default
		return table{
			"retry_attempts":  whole(func(*Config) *int { return &f.RetryAttempts }),
			"retry_interval":  span(func(*Config) *time.Duration { return &f.RetryInterval }),
			"exit_on_failure": flagInto(&f.ExitOnFailure),
		}
	})
}

// fingerprints checks the fingerprint blocks.
func (d *decoder) fingerprints() {
	list := d.to.Client.Fingerprints
	for _, name := range slices.Sorted(maps.Keys(list)) {
		f, path := list[name], decode.Join("client.fingerprint", berth.Clip(name, 100))
		if !slices.Contains(cloud.Names(), name) {
			d.fail(path, "is not the name of a cloud's fingerprint: want %s", strings.Join(cloud.Names(), ", "))
			continue
		}
		d.between(path+".retry_attempts", f.RetryAttempts, -1, 1_000_000)
		d.period(path+".retry_interval", f.RetryInterval, 100*time.Millisecond, 24*time.Hour)
		if f.ExitOnFailure && f.RetryAttempts < 0 {
			d.fail(path+".retry_attempts", "must be 0 or more with exit_on_failure, which needs an end, got %d", f.RetryAttempts)
		}
	}
}

// cloudOption reads a list of fingerprints that are made, or that are not. Those of
// clouds can be left out; all others are always made.
func (d *decoder) cloudOption(path string, only bool, names []string) {
	if only && len(names) > 0 {
		for _, c := range cloud.Names() {
			if !slices.Contains(names, c) {
				d.to.Client.NoClouds = append(d.to.Client.NoClouds, c)
			}
		}
		return
	}
	for _, name := range names {
		if slices.Contains(cloud.Names(), name) {
			d.to.Client.NoClouds = append(d.to.Client.NoClouds, name)
			continue
		}
		d.warnf("%s: %s: %.64q has no effect: only %s can be left out", d.setAt[path], path, name, strings.Join(cloud.Names(), ", "))
	}
}
