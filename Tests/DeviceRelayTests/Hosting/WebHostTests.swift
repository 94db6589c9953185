// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct WebHostTests {
    @Test(arguments: [
        "films.example", "FILMS.example", "films.example.", "a-b.c_d.example", "films.example:8080", "films.example:",
        "xn--fsq.xn--0zwm56d",
        "1.2.3.example", "127.0.0.1.example", "localhost.example", "local.example", "8.8.8.8", "1.1.1.1:53", "100.63.255.255",
        "100.128.0.1",
        "172.15.255.255", "172.32.0.1", "192.167.255.255", "192.169.0.1", "169.253.1.1", "11.0.0.1", "126.255.255.255", "128.0.0.1",
        "223.255.255.255", "198.17.255.255", "198.20.0.1", "[2606:4700:4700::1111]", "[2a00:1450:4001:81b::200e]:443", "[2001:4860::8888]",
        "[2001:200::1]", "[3ffe::1]",
    ])
    func publicHostsAreOnTheInternet(host: String) throws {
        for text in [
            "http://\(host)", "https://\(host)/", "HTTP://\(host)/a/b@127.0.0.1", "https://\(host)?q=//localhost/", "http://\(host)#@x",
        ] {
            #expect(WebHost.isOnInternet(try LaunchURI(text)), "\(text)")
        }
    }

    @Test(arguments: [
        // Local names.
        "localhost", "LOCALHOST", "localhost.", "a.localhost", "router", "router.", "printer.local", "printer.LOCAL", "printer.local.",
        "nas.lan",
        "nas.home", "nas.home.arpa", "db.internal", "wiki.corp", "wiki.intranet", "x.localdomain", "shop.test", "1.0.0.127.in-addr.arpa",
        // IPv4 addresses in usual and unusual spellings.
        "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.0x1", "0x7f.1", "0x7f.0.0.1", "0x7F000001", "0x7f000001", "2130706433",
        "017700000001", "0177.0.0.1", "0177.1", "00.0.0.0", "0", "0.0.0.0", "127.000.000.001", "127.255.255.255", "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1", "100.127.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "192.0.0.8",
        "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "192.88.99.1", "224.0.0.251", "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255", "8.8.8", "134744072", "08.8.8.8", "8.8.8.010", "1.2.3.4.5", "256.1.1.1", "999.1.1.1", "1.2.3.0x4", "1.2.3.",
        "4294967296", "example.1", "example.0x1",
        // IPv6 addresses.
        "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[fe80::1]",
        "[fe80::1%25eth0]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "[64:ff9b::7f00:1]", "[2001:db8::1]", "[2001::1]", "[2001:10::1]",
        "[2002:7f00:1::1]", "[3fff::1]", "[::1]:631", "[]", "[::1", "[films.example]", "[2606:4700::1111]x", "[2606:4700::1111]:x",
        // Spellings that programs read in different ways.
        ":80", "@127.0.0.1", "films.example@127.0.0.1", "user:password@films.example", "films.example:80@127.0.0.1", "%31%32%37.0.0.1",
        "localhos%74", "films.example%00.localhost", "films%2Eexample", "%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1", "films..example", ".example",
        "films.example..", "films.example:x", "films.example:80:80", "films,example.com", "a.b;c.example", "127.0.0.1~.example",
        "films.example$",
        "films.-", "films.-x", "films._x",
    ])
    func otherHostsAreNotOnTheInternet(host: String) throws {
        for text in [
            "http://\(host)", "https://\(host)/", "HTTP://\(host)/films.example", "https://\(host)?films.example",
            "http://\(host)#films.example",
        ] {
            guard let uri = try? LaunchURI(text) else { continue }
            #expect(!WebHost.isOnInternet(uri), "\(text)")
        }
    }

    /// Browsers accept any number of slashes.
    @Test(arguments: ["http:", "http:/", "http:///", "http:////", "http://///"]) func slashesDoNotHideAHost(start: String) {
        for rest in ["127.0.0.1/films.example", "localhost/films.example", "films.example/localhost"] {
            #expect(throws: LaunchURIError.noHost) { try LaunchURI(start + rest) }
        }
    }
}
