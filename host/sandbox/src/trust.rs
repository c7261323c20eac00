//! Whose certificates a server may show.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Whose certificates a server may show, and how TLS is spoken.
#[derive(Clone)]
pub struct Trust(pub(crate) Arc<ClientConfig>);

/// Certificates that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The text is no PEM.
    #[error("it is no PEM: {0}")]
    Pem(String),
    /// There is none in it.
    #[error("it has no certificate that can be used")]
    None,
    /// TLS can't be had.
    #[error("TLS can't be set up: {0}")]
    Tls(String),
}

impl Trust {
    /// The authorities that browsers trust.
    pub fn public() -> Result<Trust, TrustError> {
        Trust::of(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() })
    }

    /// The authorities of a PEM file, and no other.
    pub fn of_pem(pem: &[u8]) -> Result<Trust, TrustError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| TrustError::Pem(error.to_string()))?;
            // One that can't be used is none; the others are.
            let _ = roots.add(certificate);
        }
        if roots.is_empty() { Err(TrustError::None) } else { Trust::of(roots) }
    }

    fn of(roots: RootCertStore) -> Result<Trust, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TrustError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Trust(Arc::new(config)))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_certificate_is_trusted_in_nothing() {
        assert!(Trust::public().is_ok());
        assert_eq!(Trust::of_pem(b"").expect_err("empty"), TrustError::None);
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(Trust::of_pem(empty).expect_err("nothing"), TrustError::None);
    }
}
