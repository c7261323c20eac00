//! `test/judge/sockets`: imports `wasi:sockets`. A crate of its own, because a host may refuse
//! that when it loads the component, before any behaviour is chosen.

use mst_sdk::judge::{Error, Judge, Trial, Verdict};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::{IpAddressFamily, IpSocketAddress, Ipv4SocketAddress};
use wasip2::sockets::{tcp_create_socket::create_tcp_socket, udp_create_socket::create_udp_socket};

struct Sockets;

impl Judge for Sockets {
    type Options = serde::de::IgnoredAny;

    fn judge(_: &Trial<'_>, _: Self::Options) -> Result<Verdict, Error> {
        // On WASI's own interface rather than `std::net`, whose libc part not every toolchain has.
        let network = instance_network();
        let address = IpSocketAddress::Ipv4(Ipv4SocketAddress { port: 80, address: (127, 0, 0, 1) });
        let connect = create_tcp_socket(IpAddressFamily::Ipv4)
            .and_then(|socket| socket.start_connect(&network, address));
        let listen =
            create_tcp_socket(IpAddressFamily::Ipv4).and_then(|socket| socket.start_bind(&network, address));
        let udp =
            create_udp_socket(IpAddressFamily::Ipv4).and_then(|socket| socket.start_bind(&network, address));
        let resolve = resolve_addresses(&network, "localhost").map(drop);
        Ok(Verdict::pass(format!("connect {connect:?}, listen {listen:?}, udp {udp:?}, resolve {resolve:?}")))
    }
}

mst_sdk::export_judge!(Sockets);
