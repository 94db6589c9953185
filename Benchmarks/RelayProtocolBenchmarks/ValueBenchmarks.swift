// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol

/// A set of ten values, compared with Foundation's JSON of the same content.
struct SampleContent: Codable {
    struct Nested: Codable {
        var width = 1920
        var height = 1080
        var title = "Forum Romanum"
    }
    var type = "photo.metadata"
    var path = "albums/2026/rome/IMG_2041.heic"
    var size = 4_823_112
    var index = 17
    var rating = 4.5
    var isFavorite = true
    var taken = Date(timeIntervalSince1970: 1_793_000_000.5)
    var id = UUID(uuid: (0x5E, 0x1F, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16))
    var histogram = [0.125, 0.25, 0.5, 1.1, 2.2, 3.3, 4.75, 100.001]
    var image = Nested()

    var valueSet: ValueSet {
        [
            "type": .string(type), "path": .string(path), "size": .int(Int64(size)), "index": .int(Int64(index)), "rating": .double(rating),
            "isFavorite": .bool(isFavorite), "taken": .date(taken), "id": .uuid(id), "histogram": .array(histogram.map { .double($0) }),
            "image": ["width": .int(Int64(image.width)), "height": .int(Int64(image.height)), "title": .string(image.title)],
        ]
    }
}

func valueBenchmarks() throws -> [(title: String, measurements: [Measurement])] {
    let content = SampleContent()
    let set = content.valueSet
    let cbor = ByteBuffer(bytes: try set.encodedBytes())
    let jsonEncoder = JSONEncoder()
    let jsonDecoder = JSONDecoder()
    let json = try jsonEncoder.encode(content)
    let setEncoder = ValueSetEncoder()
    let setDecoder = ValueSetDecoder()
    var buffer = ByteBuffer()
    return [
        (
            "encode a set of ten values",
            [
                Measurement("CBOR of a ValueSet (\(cbor.readableBytes) bytes)") {
                    buffer.clear()
                    try set.encode(into: &buffer)
                },
                Measurement("JSONEncoder (\(json.count) bytes)") { keep(try jsonEncoder.encode(content)) },
                Measurement("CBOR of a Codable type") {
                    buffer.clear()
                    try setEncoder.encode(content).encode(into: &buffer)
                },
            ]
        ),
        (
            "decode a set of ten values",
            [
                Measurement("CBOR to a ValueSet") { keep(try ValueSet(decoding: cbor)) },
                Measurement("JSONDecoder") { keep(try jsonDecoder.decode(SampleContent.self, from: json)) },
                Measurement("CBOR to a Codable type") {
                    keep(try setDecoder.decode(SampleContent.self, from: ValueSet(decoding: cbor)))
                },
            ]
        ),
    ]
}
