//! Addresses that a request may not lead to unless its grant says so: what is near this machine and
//! not meant for the world, the services that hand out a cloud's credentials among it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of near address this is, in words; none for one of the open network.
pub(crate) fn near(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => near_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => near_v4(inner),
            None => near_v6(address).or_else(|| near_v4(tunnelled(address)?)),
        },
    }
}

fn near_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    Some(match (a, b, c) {
        // A cloud's, though it looks like anybody's.
        (168, 63, 129) if d == 16 => "an address of a cloud's own services",
        (0, ..) => "an address of this network",
        (127, ..) => "a loopback address",
        (169, 254, _) => "a link-local address",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (100, 64..=127, _) => "an address that a carrier shares",
        (192, 0, 0) | (198, 18..=19, _) => "an address for special use",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "an address for documentation",
        (224..=239, ..) => "a multicast address",
        (240.., ..) => "a reserved address",
        _ => return None,
    })
}

fn near_v6(address: Ipv6Addr) -> Option<&'static str> {
    let first = address.segments()[0];
    Some(match first {
        _ if address.is_unspecified() => "an address of this network",
        _ if address.is_loopback() => "a loopback address",
        0xfe80..=0xfebf => "a link-local address",
        0xfec0..=0xfeff | 0xfc00..=0xfdff => "a private address",
        0xff00.. => "a multicast address",
        // What is open is 2000::/3; the rest is reserved, or leads to networks of its own.
        0x2000..=0x3fff if address.segments()[..2] == [0x2001, 0xdb8] => "an address for documentation",
        0x3fff if address.segments()[1] < 0x1000 => "an address for documentation",
        0x2000..=0x3fff => return None,
        _ => "a reserved address",
    })
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated, or of a tunnel.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let at = |from: usize| Ipv4Addr::new(octets[from], octets[from + 1], octets[from + 2], octets[from + 3]);
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(at(12)),
        [0, 0, 0, 0, 0xffff, 0, ..] => Some(at(12)),
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => Some(at(12)),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(12)),
        [0x2002, ..] => Some(at(2)),
        _ => None,
    }
}

/// The IPv4 address to which a tunnel leads from an address of the open network.
fn tunnelled(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    let last = Ipv4Addr::new(a, b, c, d);
    match address.segments() {
        // Teredo turns every bit over.
        [0x2001, 0, ..] => Some(Ipv4Addr::from(!u32::from(last))),
        // ISATAP.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn what_is_near_is_told_whatever_it_is_dressed_as() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00:808:808",
            "2001:0:1:2:3:4:5601:5601",
            "2606:4700::5efe:a9fe:a9fe",
            "3fff::1",
            "168.63.129.16",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "::ffff:0:10.0.0.1",
            "100::1",
            "2001:db8::1",
        ] {
            assert!(near(address.parse().expect("an address")).is_some(), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "169.253.0.1",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(near(address.parse().expect("an address")), None, "{address}");
        }
    }
}
