# find_package(ut_decoding): the targets ut_decoding::ut_decoding, shared, and ut_decoding::static.
get_filename_component(_ut_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_ut_prefix "${_ut_libdir}/.." ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET ut_decoding::ut_decoding)
  add_library(ut_decoding::ut_decoding SHARED IMPORTED)
  set_target_properties(ut_decoding::ut_decoding PROPERTIES
    IMPORTED_LOCATION "${_ut_libdir}/libut_decoding.so.1"
    IMPORTED_SONAME "libut_decoding.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_ut_prefix}/include")
  add_library(ut_decoding::static STATIC IMPORTED)
  set_target_properties(ut_decoding::static PROPERTIES
    IMPORTED_LOCATION "${_ut_libdir}/libut_decoding.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_ut_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
