package kafkaclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// SASL says who logs in. The zero value logs nobody in.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, in any case; "" for none
	User      string
	Password  string
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch strings.ToUpper(s.Mechanism) {
	case "":
		if s.User != "" || s.Password != "" {
			return nil, fmt.Errorf("kafka: a user is given, but no SASL mechanism")
		}
		return nil, nil
	case "PLAIN":
		return plain.Mechanism{Username: s.User, Password: s.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, s.User, s.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, s.User, s.Password)
	default:
		return nil, fmt.Errorf("kafka: SASL mechanism %q is not one of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", s.Mechanism)
	}
}

// TLSFiles names the files that a TLS connection needs. All are PEM, and all may be missing: without CA the system's
// authorities are trusted, without Certificate and Key the client does not prove who it is.
type TLSFiles struct {
	CA, Certificate, Key string
	ServerName           string // expected in the broker's certificate; "" for the host that is dialled
}

// Load reads the files.
func (f TLSFiles) Load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it", f.CA)
		}
	}
	if f.Certificate != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
