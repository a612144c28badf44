package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
)

// certificate returns a certificate for the brokers, and a file with what to trust.
func certificate(t *testing.T) (*tls.Config, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, file
}

var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

func TestTLSAndSASL(t *testing.T) {
	server, file := certificate(t)
	options := []kfake.Opt{kfake.TLS(server), kfake.EnableSASL()}
	for _, mechanism := range mechanisms {
		options = append(options, kfake.Superuser(mechanism, "user", "password"))
	}
	fake := kafkatest.StartFake(t, options...)
	trusted, err := kafkaclient.TLSFiles{CA: file}.Load()
	if err != nil {
		t.Fatal(err)
	}
	cluster := kafkatest.Connect(fake.Brokers, kgo.DialTLSConfig(trusted), kgo.SASL(plain.Auth{User: "user", Pass: "password"}.AsMechanism()))
	testSecure(t, cluster, fake.Brokers, trusted, "user", "password")
}

// testSecure runs jobs with every mechanism, and with what must not work, against brokers whose topics are prepared
// through the cluster.
func testSecure(t *testing.T, cluster *kafkatest.Cluster, brokers []string, trusted *tls.Config, user, password string) {
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			s := newSetup(t, cluster, 1)
			s.brokers = brokers
			s.client.TLS = trusted
			s.client.SASL = kafkaclient.SASL{Mechanism: strings.ToLower(mechanism), User: user, Password: password}
			cluster.Write(t, kafkatest.Numbers(s.in(), 0, 0, 100)...)
			if err := s.run(t); err != nil {
				t.Fatal(err)
			}
			s.oracle(t, cluster, 1, 100)
		})
	}
	for name, change := range map[string]func(*kafkaclient.Config){
		"WrongPassword": func(c *kafkaclient.Config) { c.SASL.Password = "wrong" },
		"NotTrusted":    func(c *kafkaclient.Config) { c.TLS = &tls.Config{} },
		"OtherName":     func(c *kafkaclient.Config) { c.TLS = trusted.Clone(); c.TLS.ServerName = "other" },
		"WithoutTLS":    func(c *kafkaclient.Config) { c.TLS = nil },
		"WithoutLogin":  func(c *kafkaclient.Config) { c.SASL = kafkaclient.SASL{} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, cluster, 1)
			s.brokers = brokers
			s.client.TLS = trusted
			s.client.SASL = kafkaclient.SASL{Mechanism: "SCRAM-SHA-512", User: user, Password: password}
			s.client.RequestTimeout, s.client.TopicPatience = time.Second, 2*time.Second
			change(&s.client)
			begin := time.Now()
			if err := s.run(t); err == nil {
				t.Error("it works")
			} else {
				t.Log(err)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it takes %v to say so", took)
			}
		})
	}
}
