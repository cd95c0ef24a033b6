//! What is in a file of certificates. One reading for the check of the table and for each run.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A larger file is no list of certificates: those of all public authorities are 200 KiB.
pub const CA_FILE_BYTES_MOST: u64 = 4 << 20;

/// The authorities of a PEM file.
///
/// # Errors
/// There is none in it, or one that cannot be read. The text follows the name of the file.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let added = certificate.map_err(|error| error.to_string());
        let added = added.and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()));
        added.map_err(|error| format!("has a certificate that cannot be read: {error}"))?;
    }
    if roots.is_empty() {
        return Err("has no certificate in it: write PEM, `-----BEGIN CERTIFICATE-----`".to_owned());
    }
    Ok(roots)
}
