package jobfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every setting whose name says that it is a secret is marked as one, and every one that is marked is hidden.
func TestSecretsAreHidden(t *testing.T) {
	names := []string{"password", "secret", "token", "access-key"}
	canaries := 0
	var walk func(of reflect.Value, path string)
	walk = func(of reflect.Value, path string) {
		for _, s := range settings(of.Type()) {
			field, at := of.FieldByIndex(s.index), join(path, s.name)
			if field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
				field = field.Elem()
			}
			if field.Kind() == reflect.Struct {
				walk(field, at)
				continue
			}
			isSecret := slices.ContainsFunc(names, func(word string) bool { return strings.Contains(s.name, word) }) && !strings.HasSuffix(s.name, "-file")
			if marked := s.field.Tag.Get("secret") != ""; marked != isSecret {
				t.Errorf("%s: marked as a secret: %v, by its name it is one: %v", at, marked, isSecret)
			}
			if field.Kind() == reflect.String {
				canaries++
				if isSecret {
					field.SetString(fmt.Sprint("canary", canaries))
				} else {
					field.SetString(fmt.Sprintf("https://canary%d:canary@host/path?signature=canary", canaries))
				}
			}
		}
	}
	job := new(Job)
	walk(reflect.ValueOf(job).Elem(), "")
	job.Translate = []Option{{Name: "models", Values: []string{"https://canary:canary@host/m", "plain"}}}
	shown := map[string]string{}
	for _, setting := range job.Settings() {
		if strings.Contains(setting.Value, "canary") {
			t.Errorf("%s shows %s", setting.Path, setting.Value)
		}
		shown[setting.Path] = setting.Value
	}
	if canaries < 30 || shown["source.kafka.sasl.password"] != hidden || shown["observe.token"] != hidden || shown["source.s3.topic.sasl.password"] != hidden {
		t.Errorf("%d settings filled: %v", canaries, shown)
	}
}

func TestSettings(t *testing.T) {
	job, err := Parse([]byte(whole), variables)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, setting := range job.Settings() {
		shown[setting.Path] = setting.Value
	}
	for path, want := range map[string]string{
		"name": "reviews", "source.kafka.brokers": "localhost:9092 broker:9093", "translate.output-sampling": "topk 10",
		"memory": "128MiB", "commit-every": "500ms", "stall": "10m0s", "max-failed": "0.01", "records.max-size": "16MiB", "observe.page": "local",
		"source.kafka.sasl.user": "me", "source.kafka.sasl.password": hidden, "sink.s3.prefix": "",
	} {
		if shown[path] != want {
			t.Errorf("%s is shown as %q, want %q", path, shown[path], want)
		}
	}
}

func TestWithoutLogin(t *testing.T) {
	for value, want := range map[string]string{
		"kafka:9092": "kafka:9092", "s3://bucket/a?b": "s3://bucket/a?b", "http://store:9000": "http://store:9000",
		"https://me:secret@store/x?y=z": "https://(hidden)@store/x?(hidden)", "https://me@[::1": "https://(hidden)", "a b://c": "a b://c",
	} {
		if got := withoutLogin(value); got != want {
			t.Errorf("%q is shown as %q, want %q", value, got, want)
		}
	}
}

func TestObserve(t *testing.T) {
	for text, want := range map[string]string{
		"observe: {page: network}":                          "observe.page: network needs a token",
		"observe: {page: network, token: 0123456789abcdef}": "",
		"observe: {page: network, token-file: t}":           "",
		"observe: {token: short}":                           "observe.token: has 5 characters; at least 16",
		"observe: {token: 0123456789abcdef, token-file: t}": "observe.token-file: token is set as well",
		"observe: {page: everywhere}":                       `"everywhere" is none of local, network, off`,
	} {
		_, err := Parse([]byte(whole+text), variables)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "short") {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}
