# Makes page_assets.cpp: the parts of the page that `subring report` writes, Chart.js among them, as
# texts within the program, so that it needs no file at run time.
find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js)
if(NOT CHART_JS)
  message(FATAL_ERROR "Chart.js is missing (Debian: libjs-chart.js); scripts/setup.sh installs it, "
                      "or give -DCHART_JS=/path/to/chart.min.js of version 3")
endif()

set(script_parts format page tables charts frontier sections spectra main)
list(TRANSFORM script_parts PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM script_parts APPEND .js)
set(PAGE_SCRIPT "")
foreach(part IN LISTS script_parts)
  file(READ ${part} text)
  string(APPEND PAGE_SCRIPT "${text}")
endforeach()
file(READ ${CMAKE_CURRENT_LIST_DIR}/page.html PAGE_HTML)
file(READ ${CMAKE_CURRENT_LIST_DIR}/page.css PAGE_CSS)
file(READ ${CHART_JS} PAGE_CHART_JS)
foreach(text IN ITEMS PAGE_SCRIPT PAGE_CHART_JS)
  if("${${text}}" MATCHES "</script" OR "${${text}}" MATCHES "\\)asset\"")
    message(FATAL_ERROR "${text} cannot stand within a script element and a C++ text")
  endif()
endforeach()

configure_file(${CMAKE_CURRENT_LIST_DIR}/page_assets.cpp.in
               ${CMAKE_BINARY_DIR}/report/page_assets.cpp @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${script_parts} ${CMAKE_CURRENT_LIST_DIR}/page.html ${CMAKE_CURRENT_LIST_DIR}/page.css
             ${CHART_JS})
target_sources(subring_report PRIVATE ${CMAKE_BINARY_DIR}/report/page_assets.cpp)
