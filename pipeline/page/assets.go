package page

import (
	"embed"
	"net/http"
)

//go:embed assets
var assets embed.FS

// files are what the page consists of, by the path that they are served at.
var files = map[string]struct{ name, kind string }{
	"/":         {"index.html", "text/html; charset=utf-8"},
	"/page.css": {"page.css", "text/css; charset=utf-8"},
	"/page.js":  {"page.js", "text/javascript; charset=utf-8"},
	"/draw.js":  {"draw.js", "text/javascript; charset=utf-8"},
	"/icon.svg": {"icon.svg", "image/svg+xml"},
}

// IsAsset says whether a request is for the page itself, which holds nothing of the job.
func IsAsset(r *http.Request) bool {
	_, is := files[r.URL.Path]
	return is
}

func (p *Page) serveAssets() {
	for path, file := range files {
		content, err := assets.ReadFile("assets/" + file.name)
		if err != nil {
			panic(err) // the program was built without a file that it names
		}
		if path == "/" {
			path = "/{$}"
		}
		p.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			_, _ = w.Write(content) // whoever asked may have gone
		})
	}
}
