package docker

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
)

// between returns a driver that removes unused images, and calls before with each
// of its requests before the engine gets it.
func between(t *testing.T, before func(*http.Request)) *Driver {
	t.Helper()
	c := config(t)
	c.Endpoint = dockertest.Proxy(t, strings.TrimPrefix(c.Endpoint, "unix://"), before)
	c.KeepImages, c.ImageDelay = false, time.Hour
	return New(c)
}

// The image of a task that is about to start is in use.
func TestAnImageStaysWhileATaskStarts(t *testing.T) {
	const image = "starting:1"
	var d *Driver
	due := func(t *testing.T) {
		got, err := engine.Client.ImageInspect(t.Context(), image)
		if err != nil {
			t.Error(err)
		}
		d.images.remove(got.ID)
	}
	d = between(t, func(r *http.Request) {
		if dockertest.Creates(r) {
			due(t)
		}
	})
	if err := engine.Import(t.Context(), image, marked(t, "starting")); err != nil {
		t.Fatal(err)
	}
	defer forget(t, image)
	if got := runs(t, d, allocs(t)(1, shows(image))); got != "starting" {
		t.Errorf("%q", got)
	}
	due(t)
	if _, err := engine.Client.ImageInspect(t.Context(), image); !gone(err) {
		t.Errorf("after the task: %v", err)
	}
}

// An image that somebody else removes while a task starts may be there at the
// next try.
func TestTheImageIsRemovedByOthersWhileATaskStarts(t *testing.T) {
	const image = "removed:1"
	var once sync.Once
	d := between(t, func(r *http.Request) {
		if dockertest.Creates(r) {
			once.Do(func() { forget(t, image) })
		}
	})
	if err := engine.Import(t.Context(), image, marked(t, "removed")); err != nil {
		t.Fatal(err)
	}
	task := allocs(t)
	if _, err := d.Start(t.Context(), task(1, shows(image))); !driver.IsRecoverable(err) || !strings.Contains(err.Error(), "image") {
		t.Errorf("recoverable %v: %v", driver.IsRecoverable(err), err)
	}
	if err := engine.Import(t.Context(), image, marked(t, "back")); err != nil {
		t.Fatal(err)
	}
	defer forget(t, image)
	if got := runs(t, d, task(2, shows(image))); got != "back" {
		t.Errorf("%q", got)
	}
}

// A task that starts while its image is being removed waits, and pulls it again.
func TestATaskStartsWhileItsImageIsRemoved(t *testing.T) {
	r := dockertest.StartRegistry(t, "", "")
	push(t, r, "app:1", "pulled")
	app := r.Host + "/app:1"
	removing, asked, removed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var deletes, inspects sync.Once
	var armed atomic.Bool
	d := between(t, func(r *http.Request) {
		switch {
		case !armed.Load():
		case r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/images/"):
			deletes.Do(func() { close(removing); <-asked })
		case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/images/"+app):
			select {
			case <-removing:
				inspects.Do(func() { close(asked) })
			default:
			}
		case dockertest.Creates(r):
			<-removed
		}
	})
	task := allocs(t)
	if got := runs(t, d, task(1, shows(app))); got != "pulled" {
		t.Fatalf("%q", got)
	}
	got, err := engine.Client.ImageInspect(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	go func() {
		defer close(removed)
		d.images.remove(got.ID)
	}()
	<-removing
	if got := runs(t, d, task(2, shows(app))); got != "pulled" {
		t.Errorf("%q", got)
	}
}
