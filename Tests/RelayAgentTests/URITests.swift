// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayAgent

/// A URI's whole way, without the processes: from the argument to the argument of the program that opens it.
@Suite struct URITests {
    /// The first character that no URI has, after the conversion of an IRI.
    private func refused(_ text: String) -> Unicode.Scalar? {
        text.unicodeScalars.first { !(0x21...0x7E).contains($0.value) || "\"<>\\^`{|}".unicodeScalars.contains($0) }
    }

    @Test func generatedURIsArriveAsTheyAreOrAreRefusedByName() throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        var uris = URIGenerator(seed: seed)
        var arrived = 0
        for number in 0..<10_000 {
            let text = uris.next()
            let ascii = try IRI.uri(text)
            if text.utf8.allSatisfy({ $0 < 0x80 }) { #expect(ascii.utf8.elementsEqual(text.utf8), "seed \(seed), \(number): \(text)") }
            let uri: LaunchURI
            do throws(LaunchURIError) {
                uri = try LaunchURI(ascii)
            } catch {
                guard case .invalidCharacter(let character, let offset) = error else {
                    #expect([.noHost, .invalidPort].contains(error) && refused(ascii) == nil, "seed \(seed), \(number): \(text), \(error)")
                    continue
                }
                #expect(refused(ascii) == character, "seed \(seed), \(number): \(text)")
                #expect(Array(ascii.utf8)[offset...].starts(with: String(character).utf8))
                #expect("\(error)".contains("U+" + String(format: "%04X", character.value)))
                #expect(DisplayText.isPlain("\(error)"))
                continue
            }
            #expect(refused(ascii) == nil, "seed \(seed), \(number): \(text)")
            // The wire, and the program's arguments.
            let body = CommandBody.launch(.init(uri: uri, fallbackURI: uri))
            guard case .launch(let launch) = try CommandBody(decoding: body.encodedBytes(), kind: .launch, limits: Limits()) else {
                Issue.record("no launch")
                continue
            }
            #expect(launch.uri.text.utf8.elementsEqual(ascii.utf8) && launch.fallbackURI?.text.utf8.elementsEqual(ascii.utf8) == true)
            for (program, place) in [(["open"], 1), (["open", "{uri}", "x"], 1), (["open", "--url={uri}"], 1)] {
                let last = URIOpener.program(Program(arguments: program), with: launch.uri).arguments[place]
                #expect(last.utf8.elementsEqual((program.last == "--url={uri}" ? "--url=" + ascii : ascii).utf8))
            }
            arrived += 1
        }
        #expect(arrived > 5_000)
    }

    @Test(arguments: [
        ("https://b\u{FC}cher.example/\u{E4}?\u{F6}#\u{FC}", "https://xn--bcher-kva.example/%C3%A4?%C3%B6#%C3%BC"),
        ("HTTPS://u\u{E4}@B\u{DC}CHER.example:8080", "HTTPS://u%C3%A4@xn--bcher-kva.example:8080"),
        ("https://fa\u{DF}.example", "https://xn--fa-hia.example"),
        ("https://\u{65E5}\u{672C}\u{8A9E}.example", "https://xn--wgv71a119e.example"),
        ("https://a.example/%zz#b#\u{E4}%", "https://a.example/%zz#b#%C3%A4%"),
        ("mailto:j\u{F6}rg@a.example", "mailto:j%C3%B6rg@a.example"),
        ("x-film://b\u{FC}cher", "x-film://b%C3%BCcher"), ("https://a.example/ \u{E4}", "https://a.example/ %C3%A4"),
        ("https://a.example/\u{202E}\u{E4}", "https://a.example/\u{202E}%C3%A4"),
    ]) func letterOutsideASCIIIsEncodedAsBrowsersDo(iri: String, uri: String) throws {
        #expect(try IRI.uri(iri) == uri)
    }

    @Test(arguments: ["https://a\u{200D}b.example/", "https://\u{661}.0.0.1/", "https://\u{FFFD}.example"])
    func hostWithoutAnASCIIFormIsRefused(iri: String) {
        #expect((try? IRI.uri(iri)) == nil)
    }
}
